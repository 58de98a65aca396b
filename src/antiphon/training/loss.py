"""The loss: a sum and a count; only the loop divides."""
# B batch, T target steps, V vocabulary, N real positions

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.sequence import Sequence

__all__ = ["Loss", "cross_entropy"]


@dataclass(frozen=True)
class Loss:
    """Summed over real target positions."""

    total: Tensor  # what is minimised, with label smoothing
    plain: Tensor  # -Σ log p(y_t), without it and without gradient
    count: int

    def backward(self, scale: float = 1.0) -> None:
        """Adds the gradient of scale x total to every parameter."""
        torch.autograd.backward(self.total * scale)


def cross_entropy(logits: Tensor, outputs: Sequence, smoothing: float = 0.0) -> Loss:
    """-Σ_t Σ_v q_t(v) log p_t(v) with q = (1 - ε) [v = y_t] + ε / V, over the real positions only."""
    log_probs = torch.log_softmax(logits[outputs.mask], dim=-1)  # [N, V]
    plain = -log_probs.gather(1, outputs.values[outputs.mask].unsqueeze(1)).sum()
    total = plain if smoothing == 0.0 else (1.0 - smoothing) * plain - smoothing * log_probs.mean(dim=-1).sum()
    return Loss(total=total, plain=plain.detach(), count=log_probs.size(0))
