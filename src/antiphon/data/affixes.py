"""The affixes of a word as one number: its end, its beginning and its letter case, which say much of an unknown word.

Each is hashed to one of a few rows. Together they have 30 bits, so that an unknown word is still one id of a text.
"""
# N words

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from antiphon.data.source import Source
from antiphon.data.tokenizers import SPECIALS, UNK, WordTokenizer, WrappedTokenizer
from antiphon.text import split_at_spaces

__all__ = ["AFFIX_BITS", "AffixTokenizer", "affix_code", "affix_codes", "affix_rows"]

AFFIX_BITS = (11, 9, 7, 3)  # of the last three letters, the last two, the first two, and the case
CAPITAL, CAPITALS, MIXED, DIGITS, OTHER, LOWER, HYPHEN = range(1, 8)


def affix_code(word: str) -> int:
    """The affixes of a word; no word has the code 0."""
    small = word.lower()
    parts = (f"{small[-3:]}$", f"{small[-2:]}$", f"^{small[:2]}")
    code = 0
    for part, bits in zip(parts, AFFIX_BITS, strict=False):
        code = code << bits | zlib.crc32(part.encode("utf-8", "surrogatepass")) % (1 << bits)
    return code << AFFIX_BITS[-1] | _case(word)


def affix_rows(codes: Tensor) -> list[Tensor]:
    """The row of each affix, from codes of any shape."""
    rows, shift = [], sum(AFFIX_BITS)
    for bits in AFFIX_BITS:
        shift -= bits
        rows.append(codes >> shift & (1 << bits) - 1)
    return rows


def _case(word: str) -> int:
    if any(character.isdigit() for character in word):
        return DIGITS
    if "-" in word[1:-1]:
        return HYPHEN
    letters = [character for character in word if character.isalpha()]
    if not letters:
        return OTHER
    if word.isupper() and len(letters) > 1:
        return CAPITALS
    if word[0].isupper() and word[1:] == word[1:].lower():
        return CAPITAL
    return LOWER if word == word.lower() else MIXED


class AffixTokenizer(WordTokenizer):
    """Words between spaces or tabs; an unknown one has the id `size` + the code of its affixes, and reads <unk>."""

    def encode(self, text: str) -> list[int]:
        known, size = self._ids, self.size
        return [known[word] if word in known else size + affix_code(word) for word in split_at_spaces(text)]

    def decode(self, ids: Sequence[int]) -> str:
        return super().decode(self._known(ids))

    def symbols(self, ids: Sequence[int]) -> list[str]:
        return super().symbols(self._known(ids))

    def unknown(self, text: str) -> list[str]:
        return [word for word in split_at_spaces(text) if word not in self._ids]

    def content(self) -> dict[str, Any]:
        return {**super().content(), "affixes": True}

    @property
    def codes(self) -> Tensor:
        """The affixes of each known word [N]; the specials have none."""
        codes = [affix_code(word) for word in self._symbols[len(SPECIALS) :]]
        return torch.tensor([*[0] * len(SPECIALS), *codes], dtype=torch.long)

    def _known(self, ids: Sequence[int]) -> list[int]:
        return [number if number < self.size else UNK for number in ids]


def affix_codes(source: Source) -> Tensor | None:
    """The affixes of the tokens of a text [N]; None for all sources that do not use them."""
    inner = source.inner if isinstance(source, WrappedTokenizer) else source
    return inner.codes if isinstance(inner, AffixTokenizer) else None
