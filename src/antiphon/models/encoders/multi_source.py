"""Several sources, one memory: joined before a shared encoder, or encoded each by its own."""
# B batch, S source steps of all sources, E size of a vector, H state

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace

import torch
from torch import Tensor, nn

from antiphon.models.encoders.encoder import Encoder
from antiphon.sequence import Memory, MultiSource, Sequence

__all__ = ["ConcatenatedFrontEnds", "MatchEmbedding", "MultiEncoder", "SeparateFrontEnds", "exact_matches"]


class SeparateFrontEnds(nn.Module):
    """The vectors of each source, for an encoder of its own; with `specials`, a MatchEmbedding is added"""

    def __init__(self, fronts: Items[nn.Module], *, sizes: Items[int], specials: int | None = None) -> None:
        super().__init__()
        self.fronts = nn.ModuleList(fronts)
        self.matches = None if specials is None else MatchEmbedding(sizes, specials=specials)

    def forward(self, source: MultiSource) -> MultiSource:
        vectors = [front(part) for front, part in zip(self.fronts, source.parts, strict=True)]
        return MultiSource(tuple(vectors if self.matches is None else self.matches(source, vectors)))


class ConcatenatedFrontEnds(nn.Module):
    """x_j + m_k of all sources k, one after another, for a shared encoder; with `specials`, plus a MatchEmbedding"""

    def __init__(self, fronts: Items[nn.Module], *, size: int, specials: int | None = None) -> None:
        super().__init__()
        self.fronts = nn.ModuleList(fronts)
        self.marks = _source_embeddings(len(self.fronts), size)
        self.matches = None if specials is None else MatchEmbedding([size] * len(fronts), specials=specials)

    def forward(self, source: MultiSource) -> Sequence:
        """Vectors [B, S, E]; padding goes to the end."""
        vectors = [front(part) for front, part in zip(self.fronts, source.parts, strict=True)]
        vectors = vectors if self.matches is None else self.matches(source, vectors)
        return Sequence.joined([_add(part, mark) for part, mark in zip(vectors, self.marks, strict=True)])


class MatchEmbedding(nn.Module):
    """x_j + e_k where the token x_j of text k occurs in another text, too (Chen et al. 2017: exact match)

    Equality of words is hard to learn from their embeddings. Special tokens (ids below `specials`) never match, nor do
    sources that are no texts.
    """

    def __init__(self, sizes: Items[int], *, specials: int) -> None:
        super().__init__()
        self.vectors = nn.ParameterList(_source_embeddings(1, size) for size in sizes)
        self.specials = specials

    def forward(self, source: MultiSource, vectors: list[Sequence]) -> list[Sequence]:
        """`vectors` are the embedded parts of `source`."""
        matches = [exact_matches(source, number, self.specials) for number in range(len(vectors))]
        return [
            part if match is None else _add(part, match.unsqueeze(2) * embedding)
            for part, match, embedding in zip(vectors, matches, self.vectors, strict=True)
        ]


def exact_matches(source: MultiSource, number: int, specials: int) -> Tensor | None:
    """True where a token of text `number` occurs in another text [B, S]; None where the source is no text."""
    part = source.parts[number]
    if part.values.dim() > 2:
        return None
    matches = torch.zeros_like(part.mask)
    for other in source.parts:
        if other is not part and other.values.dim() == 2:
            same = part.values.unsqueeze(2) == other.values.unsqueeze(1)  # [B, S, S']
            matches |= (same & other.mask.unsqueeze(1)).any(2)
    return matches & (part.values >= specials)


class MultiEncoder(Encoder):
    """h_j + m_k, the states of all encoders k one after another; `final` is the mean of their final states"""

    def __init__(self, encoders: Items[Encoder]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.size = encoders[0].size
        self.marks = _source_embeddings(len(self.encoders), self.size)

    def forward(self, source: MultiSource) -> Memory:  # type: ignore[override] # it follows SeparateFrontEnds
        memories = [encoder(part) for encoder, part in zip(self.encoders, source.parts, strict=True)]
        marked = list(zip(memories, self.marks, strict=True))
        states = Sequence.joined([_add(Sequence(memory.states, memory.mask), mark) for memory, mark in marked])
        final = torch.stack([memory.final[:, -1:] + mark for memory, mark in marked]).mean(0)  # top layers [B, 1, H]
        return Memory(states.values, states.mask, final)

    def attention_weights(self, source: MultiSource) -> None:  # type: ignore[override] # noqa: ARG002
        """None: each encoder attends to its own source, so there is no matrix over all states."""
        return


def _source_embeddings(sources: int, size: int) -> nn.Parameter:
    """A vector for each source, as long as token embeddings."""
    return nn.Parameter(torch.randn(sources, size) * size**-0.5)


def _add(vectors: Sequence, added: Tensor) -> Sequence:
    return replace(vectors, values=vectors.values + added)
