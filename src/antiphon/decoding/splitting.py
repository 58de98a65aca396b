"""Long texts in parts that end where sentences do."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["in_parts"]

SENTENCE_END = re.compile(r"((?<=[.!?…])\s+|(?<=[。！？])\s*)")


def in_parts(text: str, longest: int, length: Callable[[str], int]) -> list[str]:
    """As few parts as hold whole sentences and have at most `longest` tokens; a sentence that is longer stays alone."""
    if length(text) <= longest:
        return [text]
    parts: list[str] = []
    first, *others = SENTENCE_END.split(text)  # then gaps and sentences in turn
    for gap, sentence in [("", first), *zip(others[::2], others[1::2], strict=True)]:
        if not sentence.strip():
            continue
        joined = f"{parts[-1]}{' ' if gap else ''}{sentence}" if parts else sentence
        if parts and length(joined) <= longest:
            parts[-1] = joined
        else:
            parts.append(sentence)
    return parts or [text]
