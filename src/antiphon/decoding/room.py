"""How many hypotheses may stay, and when a sentence is done."""
# B sentences still open, C candidates of each, best first

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["KeptRoom", "Room", "ShrinkingRoom"]


class Room(Protocol):
    """Where the ways to run a beam differ."""

    @property
    def size(self) -> int:
        """Of the beam: so many answers come back."""
        ...

    def candidates(self, finished: Tensor) -> int:
        """So many of the best candidates have to be known, given how many have ended [B]."""
        ...

    def taken(self, ends: Tensor, finished: Tensor) -> Tensor:
        """Of candidates that end or not [B, C], those that stay or leave finished; the others are pruned."""
        ...

    def full(self, finished: Tensor) -> Tensor:
        """Sentences [B] that need no more, although hypotheses could go on."""
        ...


@dataclass(frozen=True)
class ShrinkingRoom:
    """As the lectures tell it: one that ends leaves, and the beam shrinks by one."""

    size: int

    def candidates(self, finished: Tensor) -> int:
        return self.size - int(finished.min())

    def taken(self, ends: Tensor, finished: Tensor) -> Tensor:
        return torch.arange(ends.size(1), device=ends.device) < (self.size - finished).unsqueeze(1)

    def full(self, finished: Tensor) -> Tensor:
        return finished >= self.size


@dataclass(frozen=True)
class KeptRoom:
    """As other toolkits do it: `size` hypotheses go on beside those that have ended, until size x patience have.

    Only an end among the `size` best candidates counts.
    """

    size: int
    patience: float

    def candidates(self, finished: Tensor) -> int:  # noqa: ARG002 (always the same)
        return 2 * self.size  # at most half of them end

    def taken(self, ends: Tensor, finished: Tensor) -> Tensor:  # noqa: ARG002
        among = torch.arange(ends.size(1), device=ends.device) < self.size
        return torch.where(ends, among, (~ends).cumsum(dim=1) <= self.size)

    def full(self, finished: Tensor) -> Tensor:
        return finished >= math.ceil(self.size * self.patience)
