"""Tokens as vectors."""
# B batch, S steps, E embedding

from __future__ import annotations

from collections.abc import Sequence as Items

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.sequence import NO_COPY, Sequence

__all__ = ["NgramEmbedding", "SourceEmbedding", "TokenEmbedding", "hashed_ngrams", "vectors"]

# Vectors for what stands around a token.

BASE, PRIME, MIXER = 1_000_003, 2**31 - 1, 1_103_515_245  # products of two of them are no longer than 63 bits


class NgramEmbedding(nn.Module):
    """Σ_n E_n[x_{j-k} .. x_{j+k}] with n = 2k + 1

    A hash says which row of a table is whose, so a table has fewer rows than there are n-grams. They begin as zeros: an
    n-gram that training never shows says nothing. In training some are left out, each as a whole, so that the network
    can do without. A look-up costs no products: this is a cheap way to let a network know more by heart.
    """

    def __init__(self, *, lengths: Items[int], rows: int, size: int, dropout: float) -> None:
        super().__init__()
        self.lengths, self.rows = tuple(lengths), rows
        self.tables = nn.ModuleList(nn.Embedding(rows, size) for _ in lengths)
        for table in self.tables.parameters():
            nn.init.zeros_(table)
        self.dropout = nn.Dropout(dropout)

    def forward(self, source: Sequence) -> Tensor:
        tokens = source.values.masked_fill(~source.mask, -1)
        found = [
            self._kept(table(hashed_ngrams(tokens, length) % self.rows))
            for length, table in zip(self.lengths, self.tables, strict=True)
        ]
        return torch.stack(found).sum(dim=0)

    def _kept(self, vectors: Tensor) -> Tensor:
        """All of a vector or nothing."""
        kept: Tensor = self.dropout(torch.ones_like(vectors[..., :1]))
        return vectors * kept


def hashed_ngrams(tokens: Tensor, length: int) -> Tensor:
    """A number for the n-gram around each token [B, S]; what lies outside of the sequence is the token -1."""
    around = functional.pad(tokens, (length // 2, length // 2), value=-1)
    found = torch.zeros_like(tokens)
    for place in range(length):
        found = (found * BASE + around[:, place : place + tokens.size(1)] + 2) % PRIME
    return found * MIXER % PRIME


class TokenEmbedding(nn.Module):
    """e(y) = E[y], with dropout in training"""

    def __init__(self, *, table: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.table = table
        self.dropout = nn.Dropout(dropout)

    @property
    def tokens(self) -> int:
        return self.table.num_embeddings

    @property
    def size(self) -> int:
        return self.table.embedding_dim

    def forward(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = self.dropout(self.table(tokens))
        return vectors


class SourceEmbedding(nn.Module):
    """A Sequence of ids [B, S] becomes a Sequence of vectors [B, S, E]; `around` adds what stands around each.

    `copied_as` [tokens] tells which target token each source token is, for a decoder that copies. It follows from the
    two vocabularies, which are saved, so it is not.
    """

    copied_as: Tensor | None

    def __init__(
        self, embedding: TokenEmbedding, around: nn.Module | None = None, copied_as: Tensor | None = None
    ) -> None:
        super().__init__()
        self.size = embedding.size
        self.embedding = embedding
        self.around = around
        self.register_buffer("copied_as", copied_as, persistent=False)

    def forward(self, source: Sequence) -> Sequence:
        values = self.embedding(source.values)
        if self.around is not None:
            values = values + self.around(source)
        return Sequence(values, source.mask, self._copies(source))

    def _copies(self, source: Sequence) -> Tensor | None:
        """The target token that each position is [B, S]."""
        if self.copied_as is None:
            return None
        return self.copied_as[source.values].masked_fill(~source.mask, NO_COPY)

    def names(self, length: int) -> list[str]:
        """The numbers of the tokens; what they are, a tokenizer knows. The last is </s>."""
        return [str(number) for number in range(1, length + 1)]

    def grid(self, length: int) -> None:  # noqa: ARG002 (pictures have one)
        """Tokens stand in a row."""
        return


def vectors(tokens: int, size: int) -> nn.Embedding:
    """A fresh table of vectors of about length 1."""
    table = nn.Embedding(tokens, size)
    nn.init.normal_(table.weight, std=size**-0.5)
    return table
