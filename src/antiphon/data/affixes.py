"""The affixes of a word as one number: its end, its beginning and its letter case, which say much of an unknown word.

Each is hashed to one of a few rows. Together they have 30 bits, so that an unknown word is still one id of a text.
"""
# N words

from __future__ import annotations

import zlib
from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["AFFIX_BITS", "affix_code", "affix_rows", "affix_table", "split_at_spaces"]

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


def affix_table(words: Iterable[str]) -> Tensor:
    """The codes of some words [N]."""
    return torch.tensor([affix_code(word) for word in words], dtype=torch.long)


def split_at_spaces(text: str) -> list[str]:
    """The words between spaces and tabs; a no-break space is part of a word."""
    return [word for word in text.replace("\t", " ").split(" ") if word]


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
