"""What texts look like, and which tokens they should be cut into."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeVar

from antiphon.config.schema import Metric

__all__ = ["Cut", "Side", "between", "cut", "metrics_for", "round_up", "vocabulary"]

Number = TypeVar("Number", int, float)
Tokens = Literal["characters", "letters", "words", "bpe", "unigram"]


@dataclass(frozen=True)
class Side:
    """What one side of the sample looks like; counts are of the sample, `words` are split at white space."""

    texts: int
    letters: frozenset[str]
    kinds: int
    words: int
    mean_words: float
    mean_letters: float
    word_length: float
    most_words: int
    most_letters: int

    @classmethod
    def of(cls, texts: list[str]) -> Side:
        """Measure some texts."""
        split = [text.split() for text in texts]
        counts = Counter(word for words in split for word in words)
        total = counts.total()
        return cls(
            texts=len(texts),
            letters=frozenset(letter for text in texts for letter in text),
            kinds=len(counts),
            words=total,
            mean_words=total / len(texts),
            mean_letters=sum(map(len, texts)) / len(texts),
            word_length=sum(len(word) * count for word, count in counts.items()) / max(1, total),
            most_words=max(map(len, split)),
            most_letters=max(map(len, texts)),
        )


@dataclass(frozen=True)
class Cut:
    """How a side is cut into tokens, why, and how many tokens its texts then have."""

    tokens: Tokens
    reason: str
    mean: float
    longest: int


def cut(side: Side) -> Cut:
    """Characters (in Hangul letters) for words, words for a small closed set of symbols, sub-words for running text."""
    often = side.words >= 50 * side.kinds or side.word_length <= 2.5
    closed = side.kinds <= 100 or (side.kinds <= 300 and often)
    if closed and side.mean_words >= 1.5 and side.words >= 5 * side.kinds:
        reason = f"only {side.kinds} different symbols between spaces, each used often"
        return Cut("words", reason, side.mean_words, side.most_words)
    if side.kinds <= 100 and side.mean_words < 1.5 and side.texts >= 20 * side.kinds:
        return Cut("words", f"only {side.kinds} different answers, as in classes", side.mean_words, side.most_words)
    if side.mean_words < 3 or side.mean_letters < 20:
        reason = f"short strings ({side.mean_letters:.0f} letters and {side.mean_words:.1f} words on average)"
        if any("가" <= letter <= "힣" for letter in side.letters):
            return Cut("letters", f"{reason} in Hangul", 3 * side.mean_letters, 3 * side.most_letters)
        return Cut("characters", reason, side.mean_letters, side.most_letters)
    reason = f"running text ({side.mean_words:.0f} words on average, {side.kinds:,} different)"
    return Cut("bpe", reason, side.mean_words * 1.5, max(side.most_words, side.most_letters // 3))


def metrics_for(target: Cut) -> list[Metric]:
    """What to measure; the first also chooses the best weights."""
    if target.tokens in ("characters", "letters"):
        return ["cer", "exact_match", "token_accuracy"]
    if target.tokens == "words":
        return ["exact_match"] if target.longest == 1 else ["per", "exact_match", "token_accuracy"]
    return ["bleu", "chrf", "ter"]


def vocabulary(tokens: str, total: int) -> int:
    """How many sub-words so much text can teach; the default where tokens are given."""
    if tokens not in ("bpe", "unigram"):
        return 8000
    return next((size for limit, size in ((5_000, 1000), (20_000, 4000), (500_000, 8000)) if total < limit), 16000)


def round_up(value: float, step: int) -> int:
    """The next multiple."""
    return math.ceil(value / step) * step


def between(low: Number, value: Number, high: Number) -> Number:
    """The value, but not below low and not above high."""
    return max(low, min(value, high))
