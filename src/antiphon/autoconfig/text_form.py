"""Lower case and Unicode normalisation, where the data call for them."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Sequence

__all__ = ["case_reason", "mixes_forms"]

SMALL = 20_000  # examples; more of them show every word in both cases often enough
MIN_STARTS, MAX_INSIDE = 0.5, 0.03  # share of texts, and of words inside them, that begin with a capital letter
MIN_TWINS = 0.05  # share of the word types that differ from another by case alone
MIN_WORDS = 3  # on average; in single words case is a letter like any other


def case_reason(texts: Sequence[str], examples: int) -> str:
    """The reason to read some texts in lower case; empty if case carries something, or costs nothing."""
    rows = [words for text in texts if (words := text.split())]
    inside = [word for words in rows for word in words[1:]]
    if examples >= SMALL or not rows or len(inside) < (MIN_WORDS - 1) * len(rows):
        return ""
    starts = sum(words[0][0].isupper() for words in rows) / len(rows)
    capitals = sum(word[0].isupper() and word != "I" for word in inside) / len(inside)
    if starts >= MIN_STARTS and capitals <= MAX_INSIDE:
        return f"{starts:.0%} of the texts begin with a capital letter, {capitals:.1%} of the words inside them do"
    twins = _twins(inside)
    return f"{twins:.0%} of the different words differ from another by case alone" if twins >= MIN_TWINS else ""


def _twins(words: Sequence[str]) -> float:
    """The share of the different words that have another spelling in their case."""
    spellings: dict[str, set[str]] = defaultdict(set)
    for word in words:
        spellings[word.lower()].add(word)
    several = sum(len(forms) for forms in spellings.values() if len(forms) > 1)
    return several / max(1, sum(map(len, spellings.values())))


def mixes_forms(texts: Sequence[str]) -> bool:
    """True if some characters are composed (é) and others are not (e and an accent)."""
    decomposed = any(unicodedata.normalize("NFC", text) != text for text in texts)
    return decomposed and any(
        not unicodedata.is_normalized("NFD", text) and unicodedata.is_normalized("NFC", text) for text in texts
    )
