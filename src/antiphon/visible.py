"""Text from a model or a user, shown and never obeyed."""

from __future__ import annotations

import unicodedata

__all__ = ["visible"]

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
