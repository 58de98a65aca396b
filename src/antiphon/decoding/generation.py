"""What an answer is made of."""
# T target steps, S source steps

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Alternative", "Generation", "Scored"]


@dataclass(frozen=True)
class Alternative:
    """Another answer to the same source."""

    text: str
    tokens: list[str]
    score: float
    log_probs: list[float]


@dataclass(frozen=True)
class Generation:
    """An answer, why, and what to beware of."""

    text: str
    tokens: list[str]  # with </s> at the end if the answer is finished
    score: float  # sum of log_probs / length ^ length_penalty
    log_probs: list[float]  # one a token
    source_tokens: list[str]
    weights: np.ndarray | None = None  # attention [T, S], if asked for
    flags: list[str] = field(default_factory=list)
    alternatives: list[Alternative] = field(default_factory=list)  # the n best, this one first


@dataclass(frozen=True)
class Scored:
    """How probable a given target is: log p(y | x) and its parts."""

    source: str
    target: str
    log_prob: float
    tokens: list[str]
    log_probs: list[float]
    flags: list[str]
