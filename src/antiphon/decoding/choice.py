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

    def places(self, scores: Tensor, said: Said, count: int) -> Tensor:
        """The places of `count` candidates [B, count], best first, in scores [B, W, V] laid flat."""
        ...


class Best:
    """By score; equal scores: the lower hypothesis, then the lower token."""

    def places(self, scores: Tensor, said: Said, count: int) -> Tensor:  # noqa: ARG002 (the score says it all)
        return best_candidates(scores.flatten(1), count)[1]


BEST = Best()
