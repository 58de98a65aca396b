"""Tokens as vectors."""
# B batch, S steps, E embedding

from __future__ import annotations

from torch import Tensor, nn

from antiphon.sequence import Sequence

__all__ = ["SourceEmbedding", "TokenEmbedding", "vectors"]


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
    """A Sequence of ids [B, S] becomes a Sequence of vectors [B, S, E]; `around` adds what stands around each."""

    def __init__(self, embedding: TokenEmbedding, around: nn.Module | None = None) -> None:
        super().__init__()
        self.embedding = embedding
        self.around = around

    def forward(self, source: Sequence) -> Sequence:
        values = self.embedding(source.values)
        return Sequence(values if self.around is None else values + self.around(source), source.mask)


def vectors(tokens: int, size: int) -> nn.Embedding:
    """A fresh table of vectors of about length 1."""
    table = nn.Embedding(tokens, size)
    nn.init.normal_(table.weight, std=size**-0.5)
    return table
