"""Tokens as vectors."""
# B batch, S steps, E embedding

from __future__ import annotations

from torch import Tensor, nn

from antiphon.sequence import NO_COPY, Sequence

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
