"""No encoder: what the source's vectors say is all there is."""
# B batch, S source steps, H state

from __future__ import annotations

from torch import nn

from antiphon.encoders.encoder import Encoder
from antiphon.sequence import Memory, Sequence

__all__ = ["NoEncoder"]


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
