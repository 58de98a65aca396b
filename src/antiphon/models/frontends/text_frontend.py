"""The front end of texts: embeddings of tokens and of the n-grams around them."""
# B batch, S steps, E embedding

from __future__ import annotations

from collections.abc import Sequence as Items

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.models.frontends.frontend import FrontEnd
from antiphon.models.layers.embedding import TokenEmbedding
from antiphon.sequence import NO_COPY, Sequence

__all__ = ["NgramEmbedding", "SourceEmbedding", "hash_ngrams"]

BASE, PRIME, MIXER = 1_000_003, 2**31 - 1, 1_103_515_245  # products of two of them fit into 63 bits


class NgramEmbedding(nn.Module):
    """Σ_n E_n[x_{j-k} .. x_{j+k}] with n = 2k + 1

    A hash maps n-grams to the rows of a table, which has fewer rows than there are n-grams. Rows start at 0, so an
    n-gram not seen in training adds nothing. Dropout removes whole n-grams. A look-up needs no matrix products: it adds
    capacity to memorise at almost no cost.
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
        added = []
        for length, table in zip(self.lengths, self.tables, strict=True):
            vectors = table(hash_ngrams(tokens, length) % self.rows)
            added.append(vectors * self.dropout(torch.ones_like(vectors[..., :1])))
        return torch.stack(added).sum(dim=0)


def hash_ngrams(tokens: Tensor, length: int) -> Tensor:
    """The hash of the n-gram around each token [B, S]; beyond the ends of a sequence stands the token -1."""
    padded = functional.pad(tokens, (length // 2, length // 2), value=-1)
    hashes = torch.zeros_like(tokens)
    for offset in range(length):
        hashes = (hashes * BASE + padded[:, offset : offset + tokens.size(1)] + 2) % PRIME
    return hashes * MIXER % PRIME


class SourceEmbedding(FrontEnd):
    """e(x_j), plus with `around` the embeddings of the n-grams around x_j: ids [B, S] → vectors [B, S, E]

    `copied_as` [tokens] maps source tokens to target tokens, for a decoder that copies. It is not saved, since it
    follows from the two vocabularies.
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
        if self.copied_as is None:
            return Sequence(values, source.mask)
        return Sequence(values, source.mask, self.copied_as[source.values].masked_fill(~source.mask, NO_COPY))

    def names(self, length: int) -> list[str]:
        """Numbers from 1; the tokens themselves are known to the tokenizer. The last is </s>."""
        return [str(number) for number in range(1, length + 1)]
