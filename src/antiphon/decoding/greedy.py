"""Greedy search: the most probable token, again and again."""
# B sentences still open, V vocabulary

from __future__ import annotations

from typing import TypeVar

from torch import Tensor

from antiphon.decoding.ask import Ask
from antiphon.decoding.hypothesis import Hypothesis, Step
from antiphon.decoding.ranking import best_candidates
from antiphon.decoding.single import single_search
from antiphon.sequence import State

__all__ = ["greedy_search"]

S = TypeVar("S", bound=State)


def greedy_search(step: Step[S], state: S, ask: Ask) -> list[Hypothesis]:
    """y_t = argmax p(y | y_<t, x), until </s> or `max_length` tokens; one answer per sentence.

    Equal probabilities: the lower token.
    """
    return single_search(step, state, _best, ask)


def _best(scores: Tensor, sentences: Tensor) -> Tensor:  # noqa: ARG001 (all are treated alike)
    """The first of the most probable tokens of each row [B]."""
    return best_candidates(scores, 1)[1].squeeze(1)
