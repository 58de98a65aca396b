"""Targets that are classes: which are found, which are taken for which."""
# K classes, N examples

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.evaluation.edit import References

__all__ = ["ClassScore", "Classes", "class_names", "compare_classes", "not_classes"]

MOST = 100  # different answers that are still classes
EACH = 5  # examples of a class, on the average, at least


@dataclass(frozen=True)
class ClassScore:
    """Of one class, in percent; `precision` is None if no answer was this class."""

    name: str
    precision: float | None  # of the answers that are this class, those that are right
    recall: float  # of the examples of this class, those that are answered so
    f1: float
    count: int  # examples


@dataclass(frozen=True)
class Classes:
    """What was answered to the examples of each class."""

    names: list[str]
    confusion: NDArray[np.int64]  # [K, K + 1]: row the reference, column the answer, the last one for all other answers

    @property
    def scores(self) -> list[ClassScore]:
        """One for each class that has examples; beside other references a class may be no example's."""
        right, counts, answers = np.diag(self.confusion), self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        return [
            ClassScore(
                name=name,
                precision=100.0 * float(right[k]) / float(answers[k]) if answers[k] else None,
                recall=100.0 * float(right[k]) / float(counts[k]),
                f1=200.0 * float(right[k]) / float(counts[k] + answers[k]),
                count=int(counts[k]),
            )
            for k, name in enumerate(self.names)
            if counts[k]
        ]

    @property
    def mean(self) -> ClassScore:
        """The plain ("macro") mean over classes; a class that is never answered has precision 0 in it."""
        scores = self.scores
        return ClassScore(
            name="mean",
            precision=float(np.mean([score.precision or 0.0 for score in scores])),
            recall=float(np.mean([score.recall for score in scores])),
            f1=float(np.mean([score.f1 for score in scores])),
            count=int(self.confusion.sum()),
        )

    @property
    def accuracy(self) -> float:
        """Right answers of all, in percent."""
        return 100.0 * float(np.trace(self.confusion)) / max(1, int(self.confusion.sum()))

    @property
    def others(self) -> int:
        """Answers that are none of the classes."""
        return int(self.confusion[:, -1].sum())


def class_names(references: References) -> list[str] | None:
    """All classes, in order, if the references are classes: a few different answers, each again and again."""
    found = {text for texts in references for text in texts}
    if not 2 <= len(found) <= min(MOST, len(references) // EACH):
        return None
    return sorted(found, key=_natural)


def not_classes(references: References) -> str:
    """Why they are none."""
    found = len({text for texts in references for text in texts})
    return (
        f"the targets are no classes: {found:,} different ones in {len(references):,} examples; classes are 2 to "
        f"{MOST} different answers with at least {EACH} examples each on the average"
    )


def compare_classes(outputs: Sequence[str], references: References, names: list[str]) -> Classes:
    """An example with several references belongs to the one that was answered, else to the first."""
    number = {name: k for k, name in enumerate(names)}
    confusion = np.zeros((len(names), len(names) + 1), dtype=np.int64)
    for output, texts in zip(outputs, references, strict=True):
        right = output if output in texts else texts[0]
        confusion[number[right], number.get(output, len(names))] += 1
    return Classes(names, confusion)


def _natural(name: str) -> list[tuple[int, str]]:
    """`movement 2` is before `movement 10`."""
    parts: Iterable[str] = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
