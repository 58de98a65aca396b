"""How relevant a source state h is to a query s: one formula, one class.

A score works in two steps, because what depends on the source alone is computed once per sentence:
`prepare(states)` gives the keys, `forward(query, keys)` the scores.
"""
# B batch, Q queries, S source steps, D query size, H state size, A inner size

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

__all__ = ["AdditiveScore", "BilinearScore", "DotScore", "Score"]


class Score(nn.Module, ABC):
    """score(s, h) for every query and every source position."""

    @abstractmethod
    def prepare(self, states: Tensor) -> Tensor:
        """The part of the formula that knows only the source: [B, S, H] → keys."""

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Queries [B, Q, D] and keys → scores [B, Q, S]."""


class DotScore(Score):
    """score(s, h) = s · h"""

    def __init__(self, *, query: int, key: int) -> None:
        super().__init__()
        if query != key:
            raise ValueError(f"a dot product needs equal sizes, not {query} and {key}")

    def prepare(self, states: Tensor) -> Tensor:
        return states

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query, keys.transpose(1, 2))


class BilinearScore(Score):
    """score(s, h) = s · W h; the sizes of s and h may differ"""

    def __init__(self, *, query: int, key: int) -> None:
        super().__init__()
        self.W = nn.Linear(key, query, bias=False)

    def prepare(self, states: Tensor) -> Tensor:
        keys: Tensor = self.W(states)  # [B, S, D]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query, keys.transpose(1, 2))


class AdditiveScore(Score):
    """score(s, h) = v · tanh(W s + U h)"""

    def __init__(self, *, query: int, key: int, size: int) -> None:
        super().__init__()
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
