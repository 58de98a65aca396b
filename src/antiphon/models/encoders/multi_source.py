"""Several sources, one memory."""
# B batch, S source steps of all sources, E size of a vector, H state

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace

import torch
from torch import Tensor, nn

from antiphon.data.tokenizers import SPECIALS
from antiphon.models.encoders.encoder import Encoder
from antiphon.sequence import Memory, Sequence, Several

__all__ = ["ApartEncoders", "ApartFronts", "JoinedFronts", "Matches", "found_elsewhere"]


class JoinedFronts(nn.Module):
    """x_1..x_n of all sources one after another, each with the mark of its source: one encoder reads x_j + m_k

    With `matches`, as ApartFronts.
    """

    def __init__(self, fronts: Items[nn.Module], *, size: int, matches: bool = False) -> None:
        super().__init__()
        self.fronts = nn.ModuleList(fronts)
        self.marks = _marks(len(self.fronts), size)
        self.matches = Matches([size] * len(fronts)) if matches else None

    def forward(self, source: Several) -> Sequence:
        """Vectors [B, S, E]; padding stands at the end."""
        read = [front(part) for front, part in zip(self.fronts, source.parts, strict=True)]
        read = read if self.matches is None else self.matches(source, read)
        return Sequence.joined([_marked(vectors, mark) for vectors, mark in zip(read, self.marks, strict=True)])


class ApartFronts(nn.Module):
    """The vectors of each source, for the encoder of each; with `matches`, tokens that others have are marked"""

    def __init__(self, fronts: Items[nn.Module], *, sizes: Items[int], matches: bool = False) -> None:
        super().__init__()
        self.fronts = nn.ModuleList(fronts)
        self.matches = Matches(sizes) if matches else None

    def forward(self, source: Several) -> Several:
        read = [front(part) for front, part in zip(self.fronts, source.parts, strict=True)]
        return Several(tuple(read if self.matches is None else self.matches(source, read)))


class Matches(nn.Module):
    """x_j + e_k where the token x_j of text k stands in another text, too (Chen et al. 2017: exact match)

    That two words are the same is hard to learn from vectors that are all different; here it is seen. The specials
    match nothing, and what is no text neither.
    """

    def __init__(self, sizes: Items[int]) -> None:
        super().__init__()
        self.vectors = nn.ParameterList(_marks(1, size) for size in sizes)

    def forward(self, source: Several, read: list[Sequence]) -> list[Sequence]:
        """`read` are the vectors of what stands in `source`."""
        added = [found_elsewhere(source, number) for number in range(len(read))]
        return [
            vectors if found is None else replace(vectors, values=vectors.values + found.unsqueeze(2) * vector)
            for vectors, found, vector in zip(read, added, self.vectors, strict=True)
        ]


def found_elsewhere(source: Several, number: int) -> Tensor | None:
    """True where a token of one text stands in another [B, S]; None where it is no text."""
    part = source.parts[number]
    if part.values.dim() > 2:
        return None
    found = torch.zeros_like(part.mask)
    for other in source.parts:
        if other is not part and other.values.dim() == 2:
            same = part.values.unsqueeze(2) == other.values.unsqueeze(1)  # [B, S, S']
            found |= (same & other.mask.unsqueeze(1)).any(2)
    return found & (part.values >= len(SPECIALS))


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
