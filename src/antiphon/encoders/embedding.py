"""Tokens as vectors."""
# B batch, S steps, E embedding

from __future__ import annotations

from torch import Tensor, nn

from antiphon.sequence import Sequence

__all__ = ["SourceEmbedding", "TokenEmbedding"]


class TokenEmbedding(nn.Module):
    """e(y) = E[y], with dropout in training"""

    def __init__(self, *, tokens: int, size: int, dropout: float) -> None:
        super().__init__()
        self.table = nn.Embedding(tokens, size)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.table.weight, std=size**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = self.dropout(self.table(tokens))
        return vectors


class SourceEmbedding(nn.Module):
    """A Sequence of ids [B, S] becomes a Sequence of vectors [B, S, E]."""

    def __init__(self, *, tokens: int, size: int, dropout: float) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(tokens=tokens, size=size, dropout=dropout)

    def forward(self, source: Sequence) -> Sequence:
        return Sequence(self.embedding(source.values), source.mask)
