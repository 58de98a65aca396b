"""The interface of encoders, and the encoder that does nothing."""
# B batch, S source steps, L layers, N heads, E size of a vector, H state

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from antiphon.models.layers.dropout import Dropout
from antiphon.sequence import Memory, Sequence

__all__ = ["Encoder", "NoEncoder"]


class Encoder(nn.Module, ABC):
    """x_1..x_n → h_1..h_n"""

    size: int  # H

    @abstractmethod
    def forward(self, source: Sequence) -> Memory:
        """Vectors [B, S, E] → states [B, S, H]; a real state never depends on padding."""

    def attention_weights(self, source: Sequence) -> Tensor | None:  # noqa: ARG002 (for encoders with self-attention)
        """Self-attention weights [B, L, N, S, S]; None without self-attention."""
        return None


class NoEncoder(Encoder):
    """h_j = √E x_j, with dropout in training; the final state is their mean, since the source may be a set

    √E turns vectors of length about 1 into values of about 1.
    """

    def __init__(self, *, size: int, dropout: float) -> None:
        super().__init__()
        self.size = size
        self.dropout = Dropout(dropout)

    def forward(self, source: Sequence) -> Memory:
        states, real = self.dropout(source.values) * self.size**0.5, source.mask.unsqueeze(-1)
        mean = (states * real).sum(1) / real.sum(1)  # [B, H]
        return Memory(states, source.mask, final=mean.unsqueeze(1))
