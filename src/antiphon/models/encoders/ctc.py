"""The encoder spells the target by itself, in training only: a second loss that teaches it where what stands."""
# B batch, S source steps, H state, V vocabulary

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.data.tokenizers import PAD
from antiphon.sequence import Memory, Sequence

__all__ = ["Spelling"]


class Spelling(nn.Module):
    """-log Σ_{a: B(a) = y} Π_j p(a_j | h_j): each state says a token or nothing (Graves et al. 2006)

    B(a) is what is left of a_1..a_n when neighbours that are equal count once and nothing is left out. Attention that
    begins at random is told by no word where to look; this loss finds the order by itself. <pad> stands for nothing.
    """

    def __init__(self, *, memory: int, tokens: int, weight: float) -> None:
        super().__init__()
        self.W = nn.Linear(memory, tokens)
        self.weight = weight

    def cost(self, memory: Memory, outputs: Sequence) -> Tensor:
        """Summed over the rows, times the weight; a row with fewer states than it needs to be spelt costs nothing."""
        log_probs = torch.log_softmax(self.W(memory.states), dim=-1).transpose(0, 1)  # [S, B, V]
        lengths = outputs.lengths - 1  # without </s>
        summed = functional.ctc_loss(
            log_probs,
            outputs.values,
            memory.mask.sum(1),
            lengths,
            blank=PAD,
            reduction="sum",
            zero_infinity=True,
        )
        return self.weight * summed
