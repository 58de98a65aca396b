"""Profiles of texts, and the tokens and metrics that suit them."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeVar

from antiphon.config.schema import Metric, TextConfig

__all__ = [
    "TextProfile", "TokenChoice", "as_tokens", "choose_metrics", "choose_tokens", "choose_vocabulary", "clamp",
    "count_tokens", "longest_allowed", "round_up", "with_tokens",
]  # fmt: skip

Number = TypeVar("Number", int, float)
Tokens = Literal["characters", "letters", "words", "bpe", "unigram"]


@dataclass(frozen=True)
class TextProfile:
    """Statistics of the texts of one side; words are separated by white space."""

    texts: int
    characters: frozenset[str]
    word_types: int
    words: int
    mean_words: float
    mean_characters: float
    mean_letters: float
    word_length: float
    max_words: int
    max_characters: int
    max_letters: int

    @property
    def hangul(self) -> bool:
        """True if some characters are syllables of Hangul."""
        return any("가" <= character <= "힣" for character in self.characters)

    @classmethod
    def of(cls, texts: list[str]) -> TextProfile:
        """The statistics of some texts."""
        split = [text.split() for text in texts]
        letters = [len(unicodedata.normalize("NFD", text)) for text in texts]
        counts = Counter(word for words in split for word in words)
        total = counts.total()
        return cls(
            texts=len(texts),
            characters=frozenset().union(*texts),
            word_types=len(counts),
            words=total,
            mean_words=total / len(texts),
            mean_characters=sum(map(len, texts)) / len(texts),
            mean_letters=sum(letters) / len(texts),
            word_length=sum(len(word) * count for word, count in counts.items()) / max(1, total),
            max_words=max(map(len, split)),
            max_characters=max(map(len, texts)),
            max_letters=max(letters),
        )


@dataclass(frozen=True)
class TokenChoice:
    """The kind of tokens for one side, the reason, and the mean and greatest length of its texts in tokens."""

    tokens: Tokens
    reason: str
    mean: float
    longest: int


def choose_tokens(side: TextProfile) -> TokenChoice:
    """Characters (in Hangul: letters) for short strings, words for a closed set of symbols, sub-words for sentences."""
    types = side.word_types
    frequent = side.words >= 50 * types or side.word_length <= 2.5
    closed = types <= 100 or (types <= 300 and frequent)
    if closed and side.mean_words >= 1.5 and side.words >= 5 * types:
        return as_tokens(side, "words", f"only {types} different words, each of them frequent")
    if types <= 100 and side.mean_words < 1.5 and side.texts >= 20 * types:
        return as_tokens(side, "words", f"only {types} different answers, as in classification")
    if side.mean_words < 3 or side.mean_characters < 20:
        reason = f"short strings ({side.mean_characters:.0f} characters and {side.mean_words:.1f} words on average)"
        return as_tokens(side, "letters" if side.hangul else "characters", reason + (" in Hangul" * side.hangul))
    return as_tokens(side, "bpe", f"running text ({side.mean_words:.0f} words on average, {types:,} different)")


def as_tokens(side: TextProfile, tokens: Tokens, reason: str) -> TokenChoice:
    """The choice of given tokens, with the lengths of the texts in them."""
    if tokens == "words":
        return TokenChoice(tokens, reason, side.mean_words, side.max_words)
    if tokens in ("bpe", "unigram"):
        return TokenChoice(tokens, reason, side.mean_words * 1.5, max(side.max_words, side.max_characters // 3))
    if tokens == "letters":
        return TokenChoice(tokens, reason, side.mean_letters, side.max_letters)
    return TokenChoice(tokens, reason, side.mean_characters, side.max_characters)


def count_tokens(text: str, tokens: Tokens) -> float:
    """The tokens of a text; of sub-words an estimate."""
    if tokens in ("words", "bpe", "unigram"):
        return len(text.split()) * (1.0 if tokens == "words" else 1.5)
    return len(text if tokens == "characters" else unicodedata.normalize("NFD", text))


def choose_metrics(target: TokenChoice) -> list[Metric]:
    """The metrics for a target; the first also selects the best checkpoint."""
    if target.tokens in ("characters", "letters"):
        return ["cer", "exact_match", "token_accuracy"]
    if target.tokens == "words":
        return ["exact_match"] if target.longest == 1 else ["token_error_rate", "exact_match", "token_accuracy"]
    return ["bleu", "chrf", "ter"]


def choose_vocabulary(tokens: str, total: int) -> int:
    """The size of a sub-word vocabulary for `total` texts; the default for other tokens."""
    if tokens not in ("bpe", "unigram"):
        return 8000
    return next((size for limit, size in ((5_000, 1000), (20_000, 4000), (500_000, 8000)) if total < limit), 16000)


def longest_allowed(choice: TokenChoice) -> int:
    """The `max_length` of a text: 1.5 times the longest text seen, 20 to 400."""
    return clamp(20, round_up(1.5 * choice.longest, 10), 400)


def with_tokens(text: TextConfig, choice: TokenChoice, total: int) -> TextConfig:
    """The section of a text with its kind of tokens, vocabulary size and `max_length`."""
    vocabulary = choose_vocabulary(choice.tokens, total)
    changes = {"tokens": choice.tokens, "vocabulary": vocabulary, "max_length": longest_allowed(choice)}
    return text.model_copy(update=changes)


def round_up(value: float, step: int) -> int:
    """The next multiple of `step`."""
    return math.ceil(value / step) * step


def clamp(low: Number, value: Number, high: Number) -> Number:
    """The value limited to the range from `low` to `high`."""
    return max(low, min(value, high))
