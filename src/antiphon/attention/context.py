"""Attention as a context: c_i = Σ_j α_ij h_j, new at every step."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, D query size, H state size

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from antiphon.attention.alignment import Aligned, Alignment, Drawn
from antiphon.attention.scores import Score
from antiphon.sequence import Memory

__all__ = ["Attended", "AttentionContext", "SourceSide"]


@dataclass(frozen=True)
class SourceSide:
    """All that decoding needs of the source, computed once per sentence and shared by its hypotheses."""

    keys: Tensor  # [B, S, ...], whatever the score prepared
    values: Tensor  # [B, S, H]
    mask: Tensor  # [B, S]
    copies: Tensor | None = None  # [B, S]: the target token that each position is, for a decoder that copies

    def select(self, sentences: Tensor) -> SourceSide:
        copies = None if self.copies is None else self.copies[sentences]
        return SourceSide(self.keys[sentences], self.values[sentences], self.mask[sentences], copies)

    def of_hypotheses(self, rows: Tensor, before: int) -> SourceSide:
        """What the sentences of rows [B', k] share, when there were so many hypotheses before.

        While every sentence stays nothing is copied: sentences only ever leave, in order.
        """
        sentences = rows[:, 0] // (before // self.mask.size(0))
        return self if sentences.numel() == self.mask.size(0) else self.select(sentences)


@dataclass(frozen=True)
class Attended:
    """The context [R, T, H] and the weights it was made with [R, T, S]; where they were drawn, also how [R, T]."""

    context: Tensor
    weights: Tensor
    drawn: Drawn | None = None

    @classmethod
    def joined(cls, looks: list[Attended]) -> Attended:
        """The looks of some steps, then those of the next."""
        return cls(
            context=torch.cat([look.context for look in looks], dim=1),
            weights=torch.cat([look.weights for look in looks], dim=1),
            drawn=Drawn.joined([look.drawn for look in looks]),
        )


class AttentionContext(nn.Module):
    """c_i = Σ_j α_ij h_j with α = alignment(score(s, h))"""

    def __init__(self, *, score: Score, alignment: Alignment, size: int) -> None:
        super().__init__()
        self.score = score
        self.alignment = alignment
        self.size = size

    def prepare(self, memory: Memory) -> SourceSide:
        return SourceSide(self.score.prepare(memory.states), memory.states, memory.mask, memory.copies)

    def forward(self, query: Tensor, source: SourceSide) -> Attended:
        """Queries [R, T, D]: the hypotheses of a sentence are folded into its query axis, the source is not copied."""
        R, T, D = query.shape
        B = source.mask.size(0)
        scores = self.score(query.reshape(B, (R // B) * T, D), source.keys)
        aligned: Aligned = self.alignment(scores, source.mask)  # [B, R/B * T, S]
        context = torch.bmm(aligned.weights, source.values)
        drawn = None if aligned.drawn is None else aligned.drawn.reshape(R, T)
        return Attended(context.reshape(R, T, -1), aligned.weights.reshape(R, T, -1), drawn)
