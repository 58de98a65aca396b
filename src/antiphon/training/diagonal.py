"""Guided attention: a source that is read in order is looked at along the diagonal."""
# B batch, T target steps, S source steps

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["off_diagonal"]


def off_diagonal(weights: Tensor, target: Tensor, source: Tensor, width: float) -> Tensor:
    """Σ_t Σ_j α_tj (1 - exp(-(x_j - y_t)² / 2g²)) with g the width, over the real positions (Tachibana et al. 2018)

    How far along they are: x_j = (j - 1) / (n - 1) and y_t = (t - 1) / (m - 1), from 0 to 1. `weights` [B, T, S]; the
    masks `target` [B, T] and `source` [B, S] are of m and n real positions.
    """
    away = _places(source).unsqueeze(1) - _places(target).unsqueeze(2)  # [B, T, S]
    costs = 1.0 - torch.exp(-0.5 * (away / width).square())
    return (weights * costs * target.unsqueeze(2)).sum()


def _places(mask: Tensor) -> Tensor:
    """How far along each position is: the first real one 0, the last 1 [B, S]."""
    steps = torch.arange(mask.size(1), device=mask.device)
    return steps / (mask.sum(1, keepdim=True) - 1).clamp_min(1)
