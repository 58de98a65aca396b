"""Profiles of texts, and the tokens and metrics that suit them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeVar

from antiphon.config.schema import Metric, TextConfig

__all__ = [
    "TextProfile", "TokenChoice", "choose_metrics", "choose_tokens", "choose_vocabulary", "clamp", "longest_allowed",
    "round_up", "with_tokens",
]  # fmt: skip

Number = TypeVar("Number", int, float)
Tokens = Literal["characters", "letters", "words", "bpe", "unigram"]


@dataclass(frozen=True)
class TextProfile:
    """Statistics of one side of the sample; words are separated by white space."""

    texts: int
    letters: frozenset[str]
    different_words: int
    words: int
    mean_words: float
    mean_letters: float
    word_length: float
    most_words: int
    most_letters: int

    @classmethod
    def of(cls, texts: list[str]) -> TextProfile:
        """The statistics of some texts."""
        split = [text.split() for text in texts]
        counts = Counter(word for words in split for word in words)
        total = counts.total()
        return cls(
            texts=len(texts),
            letters=frozenset(letter for text in texts for letter in text),
            different_words=len(counts),
            words=total,
            mean_words=total / len(texts),
            mean_letters=sum(map(len, texts)) / len(texts),
            word_length=sum(len(word) * count for word, count in counts.items()) / max(1, total),
            most_words=max(map(len, split)),
            most_letters=max(map(len, texts)),
        )


@dataclass(frozen=True)
class TokenChoice:
    """The kind of tokens for one side, the reason, and how many tokens its texts then have."""

    tokens: Tokens
    reason: str
    mean: float
    longest: int


def choose_tokens(side: TextProfile) -> TokenChoice:
    """Characters (in Hangul letters) for words, words for a small closed set of symbols, sub-words for running text."""
    kinds = side.different_words
    often = side.words >= 50 * kinds or side.word_length <= 2.5
    closed = kinds <= 100 or (kinds <= 300 and often)
    if closed and side.mean_words >= 1.5 and side.words >= 5 * kinds:
        reason = f"only {kinds} different symbols between spaces, each used often"
        return TokenChoice("words", reason, side.mean_words, side.most_words)
    if kinds <= 100 and side.mean_words < 1.5 and side.texts >= 20 * kinds:
        return TokenChoice("words", f"only {kinds} different answers, as in classes", side.mean_words, side.most_words)
    if side.mean_words < 3 or side.mean_letters < 20:
        reason = f"short strings ({side.mean_letters:.0f} letters and {side.mean_words:.1f} words on average)"
        if any("가" <= letter <= "힣" for letter in side.letters):
            return TokenChoice("letters", f"{reason} in Hangul", 3 * side.mean_letters, 3 * side.most_letters)
        return TokenChoice("characters", reason, side.mean_letters, side.most_letters)
    reason = f"running text ({side.mean_words:.0f} words on average, {kinds:,} different)"
    return TokenChoice("bpe", reason, side.mean_words * 1.5, max(side.most_words, side.most_letters // 3))


def choose_metrics(target: TokenChoice) -> list[Metric]:
    """The metrics for a target; the first also chooses the best weights."""
    if target.tokens in ("characters", "letters"):
        return ["cer", "exact_match", "token_accuracy"]
    if target.tokens == "words":
        return ["exact_match"] if target.longest == 1 else ["per", "exact_match", "token_accuracy"]
    return ["bleu", "chrf", "ter"]


def choose_vocabulary(tokens: str, total: int) -> int:
    """The number of sub-words that can be learnt from `total` texts; the default for other tokens."""
    if tokens not in ("bpe", "unigram"):
        return 8000
    return next((size for limit, size in ((5_000, 1000), (20_000, 4000), (500_000, 8000)) if total < limit), 16000)


def longest_allowed(choice: TokenChoice) -> int:
    """max_length: half as long again as the longest text seen, 20 to 400."""
    return clamp(20, round_up(1.5 * choice.longest, 10), 400)


def with_tokens(text: TextConfig, choice: TokenChoice, total: int) -> TextConfig:
    """The section of a text with its tokens, vocabulary and longest length."""
    vocabulary = choose_vocabulary(choice.tokens, total)
    changes = {"tokens": choice.tokens, "vocabulary": vocabulary, "max_length": longest_allowed(choice)}
    return text.model_copy(update=changes)


def round_up(value: float, step: int) -> int:
    """The next multiple of `step`."""
    return math.ceil(value / step) * step


def clamp(low: Number, value: Number, high: Number) -> Number:
    """The value, but not below low and not above high."""
    return max(low, min(value, high))
