"""Text and amounts as people read them: control characters made visible, numbers of things in words."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

__all__ = ["amount", "by_reason", "visible"]

_JOINERS = "\u200c\u200d"  # they belong to their letters: emoji families, Persian, Indic scripts
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (also right-to-left override), surrogate, line, paragraph


def visible(text: str, keep: str = "") -> str:
    """The text with nothing in it that acts instead of being seen: a space is ␣, a line end is ␊; `keep` stays."""
    return "".join(character if character in keep else _visible_character(character) for character in text)


def _visible_character(character: str) -> str:
    code = ord(character)
    if code <= 0x20:
        return "␣" if character == " " else chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if unicodedata.category(character) in _HIDDEN and character not in _JOINERS:
        return f"U+{code:04X}"
    return character


# Numbers of things, in words.


def amount(count: int, things: str) -> str:
    """3 windows of 8 tokens, 1 window of 8 tokens: `things` are several, and their first word ends in s."""
    first, space, rest = things.partition(" ")
    return f"{count:,} {first.removesuffix('s') if count == 1 else first}{space}{rest}"


def by_reason(reasons: Mapping[str, int]) -> str:
    """3 x empty line, 1 x not JSON: the most frequent first."""
    ranked = sorted(reasons.items(), key=lambda one: -one[1])
    return ", ".join(f"{count:,} x {reason}" for reason, count in ranked)
