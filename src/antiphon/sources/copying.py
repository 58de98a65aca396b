"""Which target token a source token is, for a decoder that copies."""
# N source tokens

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.sequence import NO_COPY
from antiphon.sources.source import Source
from antiphon.sources.tokens import Tokenizer
from antiphon.sources.vocabulary import SPECIALS, UNK

__all__ = ["by_number", "by_symbol"]


def by_symbol(source: Source, target: Tokenizer) -> Tensor | None:
    """The target token that is written alike [N], or else <unk>, for which a search may put the word itself.

    None for a source that is no text.
    """
    if not isinstance(source, Tokenizer):
        return None
    known = {symbol: token for token, symbol in reversed(_symbols(target))}  # of two alike the more frequent counts
    return _without_specials(torch.tensor([known.get(symbol, UNK) for _, symbol in _symbols(source)]))


def by_number(tokens: int, target_tokens: int) -> Tensor:
    """Of two vocabularies that begin alike: every token is itself, as far as the target goes [N]."""
    numbers = torch.arange(tokens)
    return _without_specials(numbers.masked_fill(numbers >= target_tokens, UNK)[len(SPECIALS) :])


def _symbols(tokenizer: Tokenizer) -> list[tuple[int, str]]:
    """Every token but the specials, and how it is written."""
    numbers = range(len(SPECIALS), tokenizer.size)
    return list(zip(numbers, tokenizer.symbols(numbers), strict=True))


def _without_specials(others: Tensor) -> Tensor:
    """<unk> is <unk>; no other special is ever copied."""
    specials = torch.full((len(SPECIALS),), NO_COPY)
    specials[UNK] = UNK
    return torch.cat([specials, others])
