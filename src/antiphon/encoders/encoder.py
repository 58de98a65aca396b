"""What every encoder is: a Sequence of vectors becomes a Memory."""
# B batch, S source steps, N heads, L layers

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from antiphon.sequence import Memory, Sequence

__all__ = ["Encoder"]


class Encoder(nn.Module, ABC):
    """x_1..x_n → h_1..h_n"""

    size: int  # of a state h

    @abstractmethod
    def forward(self, source: Sequence) -> Memory: ...

    def look(self, source: Sequence) -> Tensor | None:  # noqa: ARG002 (for those that can)
        """Where each position looks [B, L, N, S, S]; None without self-attention."""
        return None
