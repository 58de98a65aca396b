"""Long texts in parts that end where sentences do."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["in_parts"]

SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*")


def in_parts(text: str, longest: int, length: Callable[[str], int]) -> list[str]:
    """As few parts as hold whole sentences and have at most `longest` tokens; a sentence that is longer stays alone."""
    if length(text) <= longest:
        return [text]
    parts: list[str] = []
    for sentence in filter(str.strip, SENTENCE_END.split(text)):
        joined = f"{parts[-1]} {sentence}" if parts else sentence
        if parts and length(joined) <= longest:
            parts[-1] = joined
        else:
            parts.append(sentence)
    return parts or [text]
