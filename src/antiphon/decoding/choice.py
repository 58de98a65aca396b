"""Which candidates of a beam are the best."""
# B sentences still open, W hypotheses of each, V vocabulary

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from antiphon.decoding.constraints import Said
from antiphon.decoding.ranking import best_candidates

__all__ = ["BEST", "Best", "Choice"]


class Choice(Protocol):
    """Puts candidates in order."""

    def places(self, totals: Tensor, log_probs: Tensor, said: Said, count: int) -> Tensor:
        """The places of `count` candidates [B, count], best first, in log_probs [B, W, V] laid flat.

        A candidate's score is its log probability and the total [B, W] of the hypothesis that it extends.
        """
        ...


class Best:
    """By score; equal scores: the lower hypothesis, then the more probable token, then the lower."""

    def places(self, totals: Tensor, log_probs: Tensor, said: Said, count: int) -> Tensor:  # noqa: ARG002 (the score says it all)
        """What is best of all is among the best of its own hypothesis: so the totals are added to a few only."""
        B, W, V = log_probs.shape
        few = min(count, V)
        values, tokens = best_candidates(log_probs.reshape(B * W, V), few)
        scores = totals.unsqueeze(2) + values.reshape(B, W, few)
        chosen = best_candidates(scores.flatten(1), count)[1]  # [B, count]
        slots = chosen // few
        return slots * V + tokens.reshape(B, W * few).gather(1, chosen)


BEST = Best()
