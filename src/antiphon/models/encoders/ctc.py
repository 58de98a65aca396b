"""Connectionist temporal classification: an auxiliary loss that teaches the encoder the order of the target."""
# B batch, S source steps, H state, V vocabulary

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.sequence import Memory, Sequence

__all__ = ["CTCHead"]


class CTCHead(nn.Module):
    """-log Σ_{a: B(a) = y} Π_j p(a_j | h_j): each state predicts a token or the blank (Graves et al. 2006)

    B(a) merges equal neighbours of a_1..a_n and then removes blanks. Randomly initialised attention has no hint where
    to look; this loss finds a monotonic alignment by itself. It is used in training only.
    """

    def __init__(self, *, memory: int, tokens: int, blank: int, weight: float) -> None:
        super().__init__()
        self.W = nn.Linear(memory, tokens)
        self.blank = blank
        self.weight = weight

    def loss(self, memory: Memory, outputs: Sequence) -> Tensor:
        """The weighted sum over all rows; a row with too few states for its target has loss 0."""
        log_probs = torch.log_softmax(self.W(memory.states), dim=-1).transpose(0, 1)  # [S, B, V]
        summed = functional.ctc_loss(
            log_probs,
            outputs.values,
            memory.mask.sum(1),
            outputs.lengths - 1,  # without </s>
            blank=self.blank,
            reduction="sum",
            zero_infinity=True,
        )
        return self.weight * summed
