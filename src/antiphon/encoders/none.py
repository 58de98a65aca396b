"""No encoder: what the source's vectors say is all there is."""
# B batch, S source steps, H state

from __future__ import annotations

from antiphon.encoders.encoder import Encoder
from antiphon.sequence import Memory, Sequence

__all__ = ["NoEncoder"]


class NoEncoder(Encoder):
    """h_j = x_j; in place of a last state their mean, for the source may have no order"""

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, source: Sequence) -> Memory:
        real = source.mask.unsqueeze(-1)
        mean = (source.values * real).sum(1) / real.sum(1)  # [B, H]
        return Memory(source.values, source.mask, final=mean.unsqueeze(1))
