"""The interface of a front end: from a source to the vectors that an encoder reads."""
# B batch, S source steps, S' vectors, D width of an input vector, E size

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn

from antiphon.sequence import Sequence

__all__ = ["FrontEnd", "unit_norm_linear"]


class FrontEnd(nn.Module, ABC):
    """x_1..x_S, ids or vectors → S' vectors of length about 1"""

    size: int  # E

    @abstractmethod
    def forward(self, source: Sequence) -> Sequence:
        """Values [B, S] or [B, S, D] → [B, S', E]; a real vector never depends on padding."""

    @abstractmethod
    def names(self, length: int) -> list[str]:
        """Labels of the S' vectors of a source of S = `length` steps: seconds, `row,column` or numbers from 1."""

    def grid(self, length: int) -> tuple[int, int] | None:  # noqa: ARG002 (for images)
        """Rows and columns of the vectors of an image; None for other sources."""
        return None


def unit_norm_linear(inputs: int, size: int) -> nn.Linear:
    """A linear layer that maps values of about 1 to vectors of length about 1, the length of token embeddings."""
    linear = nn.Linear(inputs, size)
    nn.init.normal_(linear.weight, std=(inputs * size) ** -0.5)
    nn.init.zeros_(linear.bias)
    return linear
