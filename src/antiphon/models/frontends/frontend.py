"""The interface of front ends, which turn a source into the vectors that an encoder reads; and that of texts."""
# B batch, S source steps, S' vectors, D width of an input vector, E size of a vector

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence as Items

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.data.affixes import AFFIX_BITS, affix_rows
from antiphon.data.tokenizers import UNK
from antiphon.models.layers.dropout import Dropout
from antiphon.models.layers.embedding import TokenEmbedding
from antiphon.sequence import NO_COPY, Sequence

__all__ = ["AffixEmbedding", "FrontEnd", "NgramEmbedding", "SourceEmbedding", "hash_ngrams", "unit_norm_linear"]

BASE, PRIME, MIXER = 1_000_003, 2**31 - 1, 1_103_515_245  # products of two of them fit into 63 bits


class FrontEnd(nn.Module, ABC):
    """x_1..x_S, ids or vectors → S' vectors of length about 1"""

    size: int  # E

    @abstractmethod
    def forward(self, source: Sequence) -> Sequence:
        """Values [B, S] or [B, S, D] → [B, S', E]; a real vector never depends on padding."""

    @abstractmethod
    def names(self, length: int) -> list[str]:
        """Labels of the S' vectors of a source of S = `length` steps: seconds, `row,column` or numbers from 1."""

    def grid(self, length: int) -> tuple[int, int] | None:  # noqa: ARG002 (for images)
        """Rows and columns of the vectors of an image; None for other sources."""
        return None


def unit_norm_linear(inputs: int, size: int) -> nn.Linear:
    """A linear layer that maps values of about 1 to vectors of length about 1, the length of token embeddings."""
    linear = nn.Linear(inputs, size)
    nn.init.normal_(linear.weight, std=(inputs * size) ** -0.5)
    nn.init.zeros_(linear.bias)
    return linear


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
        self.dropout = Dropout(dropout)

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


class AffixEmbedding(nn.Module):
    """Σ_k E_k[affix k of x_j]: the end, the beginning and the case of a word

    `codes` [V] are the affixes of the known tokens; an id from V on is an unknown word with the code id - V. They are
    not saved, since they follow from the vocabulary. Rows start at 0: affixes not seen in training add nothing.
    """

    codes: Tensor

    def __init__(self, codes: Tensor, *, size: int, dropout: float) -> None:
        super().__init__()
        self.register_buffer("codes", codes, persistent=False)
        self.tables = nn.ModuleList(nn.Embedding(1 << bits, size) for bits in AFFIX_BITS)
        for table in self.tables.parameters():
            nn.init.zeros_(table)
        self.dropout = Dropout(dropout)

    def known(self, ids: Tensor) -> Tensor:
        """The ids, with <unk> in place of unknown words."""
        return ids.masked_fill(ids >= self.codes.numel(), UNK)

    def forward(self, ids: Tensor) -> Tensor:
        tokens = self.codes.numel()
        codes = torch.where(ids < tokens, self.codes[ids.clamp(max=tokens - 1)], ids - tokens)
        parts = zip(self.tables, affix_rows(codes), strict=True)
        vectors: Tensor = self.dropout(torch.stack([table(rows) for table, rows in parts]).sum(dim=0))
        return vectors


class SourceEmbedding(FrontEnd):
    """e(x_j), plus with `around` the embeddings of the n-grams around x_j: ids [B, S] → vectors [B, S, E]

    With `affixes`, unknown words differ by their affixes, and known ones have them, too.
    `copied_as` [tokens] maps source tokens to target tokens, for a decoder that copies. It is not saved, since it
    follows from the two vocabularies.
    """

    copied_as: Tensor | None

    def __init__(
        self,
        embedding: TokenEmbedding,
        around: nn.Module | None = None,
        copied_as: Tensor | None = None,
        affixes: AffixEmbedding | None = None,
    ) -> None:
        super().__init__()
        self.size = embedding.size
        self.embedding = embedding
        self.around = around
        self.affixes = affixes
        self.register_buffer("copied_as", copied_as, persistent=False)

    def forward(self, source: Sequence) -> Sequence:
        ids = source.values if self.affixes is None else self.affixes.known(source.values)
        values = self.embedding(ids)
        if self.affixes is not None:
            values = values + self.affixes(source.values)
        if self.around is not None:
            values = values + self.around(source)
        if self.copied_as is None:
            return Sequence(values, source.mask)
        return Sequence(values, source.mask, self.copied_as[ids].masked_fill(~source.mask, NO_COPY))

    def names(self, length: int) -> list[str]:
        """Numbers from 1; the tokens themselves are known to the tokenizer. The last is </s>."""
        return [str(number) for number in range(1, length + 1)]
