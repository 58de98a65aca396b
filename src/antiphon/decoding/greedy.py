"""Greedy search: the most probable token, again and again."""
# B sentences still open, V vocabulary

from __future__ import annotations

from typing import TypeVar

from torch import Tensor

from antiphon.decoding.constraints import Rule
from antiphon.decoding.hypothesis import Check, Hypothesis, Step
from antiphon.decoding.single import single_search
from antiphon.sequence import State

__all__ = ["greedy_search"]

S = TypeVar("S", bound=State)


def greedy_search(
    step: Step[S],
    state: S,
    *,
    sentences: int,
    start: int | list[int],
    end: int,
    max_length: int,
    length_penalty: float = 0.0,
    prefixes: list[list[int]] | None = None,
    rules: tuple[Rule, ...] = (),
    check: Check | None = None,
) -> list[Hypothesis]:
    """y_t = argmax p(y | y_<t, x), until </s> or `max_length` tokens (</s> counts); one answer per sentence.

    Equal probabilities: the lower token.
    """
    return single_search(
        step,
        state,
        _best,
        sentences=sentences,
        start=start,
        end=end,
        max_length=max_length,
        length_penalty=length_penalty,
        prefixes=prefixes,
        rules=rules,
        check=check,
    )


def _best(scores: Tensor, sentences: Tensor) -> Tensor:  # noqa: ARG001 (all are treated alike)
    """The first of the most probable tokens of each row [B]."""
    return scores.max(dim=1).indices
