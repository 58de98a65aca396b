"""The values of a search: the step function of a model, the request, candidates and hypotheses."""
# R rows = sentences x hypotheses (those of one sentence side by side), V vocabulary, B open sentences, C candidates

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from antiphon.search.constraints import Constraint
from antiphon.sequence import State

__all__ = ["Candidates", "Check", "Hypothesis", "SearchRequest", "StepFunction", "first_tokens"]

S = TypeVar("S", bound=State)

Check = Callable[[], None]
"""Called before each step; it may raise an exception, which stops the search."""


class StepFunction(Protocol[S]):
    """One decoding step of any model."""

    def __call__(self, tokens: Tensor, state: S, /) -> tuple[Tensor, S]:
        """Last tokens [R] and their state → log probabilities of the next tokens [R, V] and the state after.

        Search may write into the log probabilities.
        """
        ...


@dataclass(frozen=True)
class SearchRequest:
    """The part of a search that does not depend on its kind."""

    sentences: int
    start: int | list[int]  # the token before the first, one for all or one for each
    end: int  # </s>
    max_length: int  # in tokens; </s> counts
    length_penalty: float = 0.0  # the exponent a of sum(log p) / length^a
    prefixes: list[list[int]] | None = None  # forced beginnings, one for each sentence
    constraints: tuple[Constraint, ...] = ()
    check: Check | None = None


def first_tokens(start: int | list[int], sentences: int) -> Tensor:
    """The token before the first one, the same for all sentences or one for each [sentences]."""
    return torch.tensor(start, dtype=torch.long).expand(sentences).clone()


@dataclass(frozen=True)
class Candidates:
    """The best candidates of each sentence, best first, each [B, C]."""

    slots: Tensor  # the hypothesis that it extends
    tokens: Tensor
    log_probs: Tensor  # of the token
    totals: Tensor  # sums of the log probabilities up to the token
    selected: Tensor  # goes on or finishes; False: pruned or impossible
    ended: Tensor  # selected, and the token is </s>


@dataclass(frozen=True)
class Hypothesis:
    """An answer: tokens without <s>, and with </s> at the end if it is finished."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    score: float
    finished: bool

    @classmethod
    def of(cls, tokens: list[int], log_probs: list[float], *, finished: bool, length_penalty: float) -> Hypothesis:
        """score = sum(log p) / length ^ length_penalty; the length counts </s>."""
        score = sum(log_probs) / max(1, len(tokens)) ** length_penalty
        return cls(tuple(tokens), tuple(log_probs), score, finished)

    @property
    def log_prob(self) -> float:
        """log p(answer | source), not normalised."""
        return sum(self.log_probs)
