"""How relevant a source state h is to a query s: one formula, one class.

A score works in two steps, because what depends on the source alone is computed once per sentence:
`prepare(states)` gives the keys, `forward(query, keys)` the scores.
"""
# B batch, Q queries, S source steps, D query size, H state size, A inner size

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

__all__ = [
    "AdditiveScore",
    "BilinearScore",
    "ConcatScore",
    "CosineScore",
    "DotScore",
    "EqualSizes",
    "ScaledDotScore",
    "Score",
]

SHORTEST = 1e-4


class Score(nn.Module, ABC):
    """score(s, h) for every query and every source position.

    `query` and `key` are the sizes of s and h; `size` is the inner size of those scores that have one.
    """

    def __init__(self, *, query: int, key: int, size: int) -> None:  # noqa: ARG002 (what every score is told)
        super().__init__()

    def prepare(self, states: Tensor) -> Tensor:
        """The part of the formula that knows only the source: [B, S, H] → keys."""
        return states

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Queries [B, Q, D] and keys → scores [B, Q, S]."""


class EqualSizes(Score):
    """A score that compares s and h number by number."""

    def __init__(self, *, query: int, key: int, size: int) -> None:
        super().__init__(query=query, key=key, size=size)
        if query != key:
            raise ValueError(f"{type(self).__name__} needs states of equal size, not {query} and {key}")


class DotScore(EqualSizes):
    """score(s, h) = s · h"""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query, keys.transpose(1, 2))


class ScaledDotScore(EqualSizes):
    """score(s, h) = s · h / √d, d the size of both: scores do not grow with the size"""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query / math.sqrt(query.size(-1)), keys.transpose(1, 2))


class CosineScore(EqualSizes):
    """score(s, h) = s · h / (|s| |h|), from -1 to 1

    A vector shorter than 0.0001 is divided by that instead: a zero vector scores 0, and no gradient is without bound.
    """

    def prepare(self, states: Tensor) -> Tensor:
        return normalize(states, dim=-1, eps=SHORTEST)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(normalize(query, dim=-1, eps=SHORTEST), keys.transpose(1, 2))


class BilinearScore(Score):
    """score(s, h) = s · W h; the sizes of s and h may differ"""

    def __init__(self, *, query: int, key: int, size: int) -> None:
        super().__init__(query=query, key=key, size=size)
        self.W = nn.Linear(key, query, bias=False)

    def prepare(self, states: Tensor) -> Tensor:
        keys: Tensor = self.W(states)  # [B, S, D]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query, keys.transpose(1, 2))


class AdditiveScore(Score):
    """score(s, h) = v · tanh(W s + U h)"""

    def __init__(self, *, query: int, key: int, size: int) -> None:
        super().__init__(query=query, key=key, size=size)
        self.W = nn.Linear(query, size)
        self.U = nn.Linear(key, size, bias=False)
        self.v = nn.Linear(size, 1, bias=False)

    def prepare(self, states: Tensor) -> Tensor:
        keys: Tensor = self.U(states)  # [B, S, A]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        left = self.W(query).unsqueeze(2)  # [B, Q, 1, A]
        scores: Tensor = self.v(torch.tanh(left + keys.unsqueeze(1))).squeeze(-1)  # [B, Q, S]
        return scores


class ConcatScore(Score):
    """score(s, h) = w2 · tanh(W1 [s; h])

    Never computed so: W1 [s; h] = W_s s + W_h h, the left and the right columns of W1, and W_h h is the same for every
    query. What is left of the difference to the additive score is that W1 is one matrix with one initialisation.
    """

    def __init__(self, *, query: int, key: int, size: int) -> None:
        super().__init__(query=query, key=key, size=size)
        self.query = query
        self.W1 = nn.Linear(query + key, size)
        self.w2 = nn.Linear(size, 1, bias=False)

    def prepare(self, states: Tensor) -> Tensor:
        return linear(states, self.W1.weight[:, self.query :], self.W1.bias)  # [B, S, A]

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        left = linear(query, self.W1.weight[:, : self.query]).unsqueeze(2)  # [B, Q, 1, A]
        scores: Tensor = self.w2(torch.tanh(left + keys.unsqueeze(1))).squeeze(-1)  # [B, Q, S]
        return scores
