"""What turns a source into vectors for an encoder."""
# B batch, S source steps, S' vectors, E size

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from torch import nn

from antiphon.sequence import Sequence

__all__ = ["Front", "Stretched"]


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


class Stretched(nn.Module):
    """λ x_1..λ x_S': the vectors of a front, as long as the encoder wants them"""

    def __init__(self, front: nn.Module, length: float) -> None:
        super().__init__()
        self.front = front
        self.length = length

    @property
    def size(self) -> int:
        return int(self.front.size)  # type: ignore[arg-type]

    def forward(self, source: Sequence) -> Sequence:
        vectors: Sequence = self.front(source)
        return replace(vectors, values=vectors.values * self.length)

    def names(self, length: int) -> list[str]:
        return list(self.front.names(length))  # type: ignore[operator]

    def grid(self, length: int) -> tuple[int, int] | None:
        found: tuple[int, int] | None = self.front.grid(length)  # type: ignore[operator]
        return found
