"""Several sources, one memory."""
# B batch, S source steps of all sources, E size of a vector, H state

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace

import torch
from torch import Tensor, nn

from antiphon.encoders.encoder import Encoder
from antiphon.sequence import Memory, Sequence, Several

__all__ = ["ApartEncoders", "ApartFronts", "JoinedFronts"]


class JoinedFronts(nn.Module):
    """x_1..x_n of all sources one after another, each with the mark of its source: one encoder reads x_j + m_k"""

    def __init__(self, fronts: Items[nn.Module], *, size: int) -> None:
        super().__init__()
        self.fronts = nn.ModuleList(fronts)
        self.marks = _marks(len(self.fronts), size)

    def forward(self, source: Several) -> Sequence:
        """Vectors [B, S, E]; padding stands at the end."""
        read = zip(self.fronts, source.parts, self.marks, strict=True)
        return Sequence.joined([_marked(front(part), mark) for front, part, mark in read])


class ApartFronts(nn.Module):
    """The vectors of each source, for the encoder of each"""

    def __init__(self, fronts: Items[nn.Module]) -> None:
        super().__init__()
        self.fronts = nn.ModuleList(fronts)

    def forward(self, source: Several) -> Several:
        return Several(tuple(front(part) for front, part in zip(self.fronts, source.parts, strict=True)))


class ApartEncoders(Encoder):
    """The states of all encoders side by side, h_j + m_k with the mark of their source; `final` is their mean"""

    def __init__(self, encoders: Items[Encoder]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.size = encoders[0].size
        self.marks = _marks(len(self.encoders), self.size)

    def forward(self, source: Several) -> Memory:  # type: ignore[override] # the fronts before it give no other
        memories = [encoder(part) for encoder, part in zip(self.encoders, source.parts, strict=True)]
        both = list(zip(memories, self.marks, strict=True))
        states = Sequence.joined([_marked(Sequence(memory.states, memory.mask), mark) for memory, mark in both])
        final = torch.stack([memory.final[:, -1:] + mark for memory, mark in both]).mean(0)  # the topmost [B, 1, H]
        return Memory(states.values, states.mask, final)

    def look(self, source: Several) -> None:  # type: ignore[override] # noqa: ARG002
        """Each looks at its own source, and the states of all have no one matrix."""
        return


def _marks(sources: int, size: int) -> nn.Parameter:
    """A vector for each source, as long as those of tokens."""
    return nn.Parameter(torch.randn(sources, size) * size**-0.5)


def _marked(vectors: Sequence, mark: Tensor) -> Sequence:
    return replace(vectors, values=vectors.values + mark)
