"""What turns a source into vectors for an encoder."""
# B batch, S source steps, S' vectors, E size

from __future__ import annotations

from typing import Protocol

from antiphon.sequence import Sequence

__all__ = ["Front"]


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
