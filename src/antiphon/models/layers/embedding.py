"""Token embeddings."""
# B batch, T steps, V vocabulary, E embedding

from __future__ import annotations

from torch import Tensor, nn

from antiphon.models.layers.dropout import Dropout

__all__ = ["TokenEmbedding", "embedding_table"]


class TokenEmbedding(nn.Module):
    """e(y) = E[y], with dropout in training"""

    def __init__(self, *, table: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.table = table
        self.dropout = Dropout(dropout)

    @property
    def tokens(self) -> int:
        return self.table.num_embeddings

    @property
    def size(self) -> int:
        return self.table.embedding_dim

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens [B, T] → vectors [B, T, E]."""
        vectors: Tensor = self.dropout(self.table(tokens))
        return vectors


def embedding_table(tokens: int, size: int) -> nn.Embedding:
    """A new table E [V, E] of vectors of length about 1."""
    table = nn.Embedding(tokens, size)
    nn.init.normal_(table.weight, std=size**-0.5)
    return table
