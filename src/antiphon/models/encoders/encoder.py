"""No encoder: what the source's vectors say is all there is."""
# B batch, S source steps, N heads, L layers
# B batch, S source steps, S' vectors, E size
# B batch, S source steps, H state

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from torch import Tensor, nn

from antiphon.sequence import Memory, Sequence

__all__ = ["Encoder", "Front", "NoEncoder"]

# What every encoder is: a Sequence of vectors becomes a Memory.


class Encoder(nn.Module, ABC):
    """x_1..x_n → h_1..h_n"""

    size: int  # of a state h

    @abstractmethod
    def forward(self, source: Sequence) -> Memory: ...

    def look(self, source: Sequence) -> Tensor | None:  # noqa: ARG002 (for those that can)
        """Where each position looks [B, L, N, S, S]; None without self-attention."""
        return None


# What turns a source into vectors for an encoder.


class Front(Protocol):
    """x_1..x_S, ids or vectors, become S' vectors of about length 1"""

    size: int  # E

    def __call__(self, source: Sequence) -> Sequence:
        """Values [B, S] or [B, S, D] become [B, S', E]; what is real depends on nothing behind it."""
        ...

    def names(self, length: int) -> list[str]:
        """What the S' vectors of a source of S = `length` stand for: seconds, `row,column`, numbers."""
        ...

    def grid(self, length: int) -> tuple[int, int] | None:
        """Rows and columns of the vectors of a picture; None where there are none."""
        ...


class NoEncoder(Encoder):
    """h_j = √E x_j, with dropout in training; in place of a last state their mean, for the source may have no order

    √E makes of vectors of about length 1 what states are: values of about 1.
    """

    def __init__(self, *, size: int, dropout: float) -> None:
        super().__init__()
        self.size = size
        self.dropout = nn.Dropout(dropout)

    def forward(self, source: Sequence) -> Memory:
        states, real = self.dropout(source.values) * self.size**0.5, source.mask.unsqueeze(-1)
        mean = (states * real).sum(1) / real.sum(1)  # [B, H]
        return Memory(states, source.mask, final=mean.unsqueeze(1))
