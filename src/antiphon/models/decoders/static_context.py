"""Static contexts: one vector for the whole answer, pooled from the encoder's states."""
# B batch, S source steps, L layers, H encoder state, C context

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from antiphon.sequence import Memory

__all__ = ["POOLS", "StaticContext"]


def last(memory: Memory) -> Tensor:
    """c = h_n, of each layer"""
    return memory.final


def mean(memory: Memory) -> Tensor:
    """c = 1/n Σ_j h_j over the real positions"""
    real = memory.mask.unsqueeze(-1)
    return ((memory.states * real).sum(1) / real.sum(1)).unsqueeze(1)


def largest(memory: Memory) -> Tensor:
    """c = max_j h_j over the real positions, element-wise"""
    return memory.states.masked_fill(~memory.mask.unsqueeze(-1), -torch.inf).amax(1).unsqueeze(1)


POOLS: dict[str, Callable[[Memory], Tensor]] = {"last": last, "mean": mean, "max": largest}


class StaticContext(nn.Module):
    """c = f(h_1..h_n); it sets the first state (with a bridge), enters every step (`every_step`), or both"""

    def __init__(self, *, pool: Callable[[Memory], Tensor], bridge: nn.Module | None, every_step: bool) -> None:
        super().__init__()
        self.pool = pool
        self.bridge = bridge
        self.every_step = every_step

    def forward(self, memory: Memory, zeros: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        """The first state, `zeros` without a bridge, and the context of every step [B, C] (C = 0: none)."""
        pooled = self.pool(memory)  # [B, L, H], or [B, 1, H] for mean and max
        layers = zeros[0].size(1)  # of a deeper encoder only the top layers are used
        first = zeros if self.bridge is None else self.bridge(pooled[:, -layers:])
        return first, pooled[:, -1] if self.every_step else pooled.new_zeros(pooled.size(0), 0)
