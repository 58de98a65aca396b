"""Text for people: control characters made visible, counts with their nouns, lines that fit the terminal."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping

__all__ = [
    "HANGING", "cut", "duration", "format_reasons", "natural_order", "nearest", "pack", "plural", "split_at_spaces",
    "visible",
]  # fmt: skip

HANGING = "    "  # begins the second line of what does not fit in one

_JOINERS = "\u200c\u200d"  # part of their letters: emoji families, Persian, Indic scripts
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (also right-to-left override), surrogate, line, paragraph


def visible(text: str, keep: str = "") -> str:
    """The text with symbols for all control characters: a space is ␣, a line end is ␊; characters of `keep` stay."""
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


def cut(text: str, width: int) -> str:
    """The text, cut with … if it is wider than this; wide characters take two columns of the terminal."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip(" ") + "…"


def pack(parts: list[str], width: int, gap: str = "  ") -> list[str]:
    """The parts in as few lines as possible; all lines but the first are indented."""
    from rich.cells import cell_len

    lines = [parts[0]]
    for part in parts[1:]:
        if cell_len(longer := f"{lines[-1]}{gap}{part}") <= width:
            lines[-1] = longer
        else:
            lines.append(HANGING + part)
    return lines


def natural_order(name: str) -> list[tuple[int, str]]:
    """A sort key that puts `update-900` before `update-1000`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def plural(count: int, noun: str) -> str:
    """3 windows of 8 tokens, 1 window of 8 tokens: the first word of `noun` is a plural that ends in s."""
    first, space, rest = noun.partition(" ")
    return f"{count:,} {first.removesuffix('s') if count == 1 else first}{space}{rest}"


def duration(seconds: float) -> str:
    """2 h 05 min, 3 min 20 s, 45 s, 0.4 s, less than 0.1 s"""
    if seconds < 0.1:
        return "less than 0.1 s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s" if rest >= 10 else f"{seconds:.1f} s"


def format_reasons(reasons: Mapping[str, int]) -> str:
    """3 x empty line, 1 x not JSON: the most frequent first."""
    ranked = sorted(reasons.items(), key=lambda item: -item[1])
    return ", ".join(f"{count:,} x {reason}" for reason, count in ranked)


def nearest(word: str, words: Iterable[str]) -> str | None:
    """For "did you mean": the most similar of the words, or one that the word contains; None if there is none."""
    lowered = {other.lower(): other for other in words}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    inside = [other for other in lowered if len(other) > 3 and other in word.lower()]
    found = close[0] if close else max(inside, key=len, default=None)
    return None if found is None else lowered[found]


def split_at_spaces(text: str) -> list[str]:
    """The words between spaces and tabs; a no-break space is part of a word."""
    return [word for word in text.replace("\t", " ").split(" ") if word]
