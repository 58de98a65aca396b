"""Statistics of sentences compared with their best reference: edits, equal positions, common subsequences."""
# N sentences

from __future__ import annotations

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
    "edits",
    "equal_positions",
    "longest_common",
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


def words(text: str) -> list[str]:
    """Cut at white space."""
    return text.split()


def characters(text: str) -> list[str]:
    """Grapheme clusters: what a reader calls a character."""
    return list(_CLUSTER.findall(text))


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
        total = len(output) + len(reference)
        f = 2.0 * LCSseq.similarity(output, reference) / total if total else 1.0
        return f, f, 1.0

    return _best(outputs, references, cut, compare)


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
