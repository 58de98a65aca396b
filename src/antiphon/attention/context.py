"""Attention as a context: c_i = Σ_j α_ij h_j, new at every step."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, D query size, H state size

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from antiphon.attention.scores import Score
from antiphon.sequence import Memory

__all__ = ["Attended", "AttentionContext", "SourceSide"]


@dataclass(frozen=True)
class SourceSide:
    """All that decoding needs of the source, computed once per sentence and shared by its hypotheses."""

    keys: Tensor  # [B, S, ...], whatever the score prepared
    values: Tensor  # [B, S, H]
    mask: Tensor  # [B, S]

    def select(self, sentences: Tensor) -> SourceSide:
        return SourceSide(self.keys[sentences], self.values[sentences], self.mask[sentences])


@dataclass(frozen=True)
class Attended:
    """The context [R, T, H] and the weights it was made with [R, T, S]."""

    context: Tensor
    weights: Tensor


class AttentionContext(nn.Module):
    """c_i = Σ_j α_ij h_j with α = alignment(score(s, h))"""

    def __init__(self, *, score: Score, alignment: nn.Module, size: int) -> None:
        super().__init__()
        self.score = score
        self.alignment = alignment
        self.size = size

    def prepare(self, memory: Memory) -> SourceSide:
        return SourceSide(keys=self.score.prepare(memory.states), values=memory.states, mask=memory.mask)

    def forward(self, query: Tensor, source: SourceSide) -> Attended:
        """Queries [R, T, D]: the hypotheses of a sentence are folded into its query axis, the source is not copied."""
        R, T, D = query.shape
        B = source.mask.size(0)
        scores = self.score(query.reshape(B, (R // B) * T, D), source.keys)
        weights = self.alignment(scores, source.mask)  # [B, R/B * T, S]
        context = torch.bmm(weights, source.values)
        return Attended(context.reshape(R, T, -1), weights.reshape(R, T, -1))
