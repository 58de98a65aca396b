"""What search needs of a model, and what it gives back."""
# R rows = sentences x hypotheses (those of one sentence side by side), V vocabulary

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from torch import Tensor

__all__ = ["Check", "Hypothesis", "State", "Step"]

Check = Callable[[], None]
"""Called once per step; it may raise, and search stops at once."""


class State(Protocol):
    """What a model remembers of each row, as a value."""

    def select(self, rows: Tensor) -> Self:
        """The state in which new row (b, j) continues old row rows[b, j]; rows [B', k'].

        Sentences keep their order and may leave; one row of `rows` names old rows of one sentence only.
        """
        ...


S = TypeVar("S", bound=State)


class Step(Protocol[S]):
    """One step of any model."""

    def __call__(self, tokens: Tensor, state: S, /) -> tuple[Tensor, S]:
        """Last tokens [R] and their state → log probabilities of the next tokens [R, V] and the state after."""
        ...


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
