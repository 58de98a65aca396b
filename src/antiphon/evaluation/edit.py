"""Statistics of sentences compared with their best reference: edits, equal positions, what they have in common."""
# N sentences

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import regex
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq, Levenshtein

__all__ = [
    "Cut",
    "References",
    "Statistics",
    "characters",
    "common_ngrams",
    "edits",
    "equal_positions",
    "longest_common",
    "lower_words",
    "same",
    "words",
]

Statistics = NDArray[np.float64]
References = Sequence[tuple[str, ...]]
"""One or more right answers for each sentence."""
Cut = Callable[[str], list[str]]
"""Cuts a text into the units that are compared."""
Compare = Callable[[list[int], list[int]], tuple[float, float, float]]
"""Output and reference as numbered units → merit, first statistic, second statistic."""

_CLUSTER = regex.compile(r"\X")
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")


def words(text: str) -> list[str]:
    """Cut at white space."""
    return text.split()


def characters(text: str) -> list[str]:
    """Grapheme clusters: what a reader calls a character."""
    return list(_CLUSTER.findall(text))


def lower_words(text: str) -> list[str]:
    """Runs of letters and digits, in lower case: of English what the rouge_score package takes, without its stemmer."""
    return list(_WORD.findall(text.lower()))


def edits(outputs: Sequence[str], references: References, cut: Cut) -> Statistics:
    """[N, 2]: edit distance to the reference with the lowest error rate (then the longest), and its length."""

    def compare(output: list[int], reference: list[int]) -> tuple[float, float, float]:
        distance, length = Levenshtein.distance(output, reference), len(reference)
        rate = distance / length if length else float("inf") if distance else 0.0
        return -rate, distance, length

    return _best(outputs, references, cut, compare)


def equal_positions(outputs: Sequence[str], references: References, cut: Cut) -> Statistics:
    """[N, 2]: positions with equal units in the reference that has the largest share of them, and the longer length."""

    def compare(output: list[int], reference: list[int]) -> tuple[float, float, float]:
        equal, longest = sum(map(int.__eq__, output, reference)), max(len(output), len(reference))
        if longest == 0:  # nothing to say and nothing said is right
            equal = longest = 1
        return equal / longest, equal, longest

    return _best(outputs, references, cut, compare)


def longest_common(outputs: Sequence[str], references: References, cut: Cut) -> Statistics:
    """[N, 2]: F of the longest common subsequence, 2 |lcs| / (|output| + |reference|), and 1."""

    def compare(output: list[int], reference: list[int]) -> tuple[float, float, float]:
        f = _f1(LCSseq.similarity(output, reference), len(output) + len(reference))
        return f, f, 1.0

    return _best(outputs, references, cut, compare)


def common_ngrams(outputs: Sequence[str], references: References, cut: Cut, n: int) -> Statistics:
    """[N, 2]: F of the n-grams, 2 |both| / (|of the output| + |of the reference|), and 1.

    |both| counts an n-gram as often as the side that has it less often.
    """

    def compare(output: list[int], reference: list[int]) -> tuple[float, float, float]:
        ours, theirs = _ngrams(output, n), _ngrams(reference, n)
        f = _f1((ours & theirs).total(), ours.total() + theirs.total())
        return f, f, 1.0

    return _best(outputs, references, cut, compare)


def _ngrams(units: list[int], n: int) -> Counter[tuple[int, ...]]:
    return Counter(zip(*(units[first:] for first in range(n)), strict=False))


def _f1(both: int, total: int) -> float:
    """Where neither side has anything it is 0, as in the rouge_score package."""
    return 2.0 * both / total if total else 0.0


def same(outputs: Sequence[str], references: References, cut: Cut) -> Statistics:
    """[N, 2]: 1 if the output equals a reference, unit by unit, and 1."""

    def compare(output: list[int], reference: list[int]) -> tuple[float, float, float]:
        right = float(output == reference)
        return right, right, 1.0

    return _best(outputs, references, cut, compare)


def _best(
    outputs: Sequence[str],
    references: References,
    cut: Cut,
    compare: Compare,
) -> Statistics:
    """Each output's two statistics against the reference with the highest (merit, second statistic)."""
    numbers: dict[str, int] = {}  # equal units, equal numbers: compared fast and without hash collisions

    def numbered(units: Iterable[str]) -> list[int]:
        return [numbers.setdefault(unit, len(numbers)) for unit in units]

    rows = np.zeros((len(outputs), 2), dtype=np.float64)
    for row, output, texts in zip(rows, outputs, references, strict=True):
        said = numbered(cut(output))
        found = [compare(said, numbered(cut(text))) for text in texts]
        row[:] = max(found, key=lambda values: (values[0], values[2]))[1:]
    return rows
