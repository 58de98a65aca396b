"""Targets that are classes: confusion matrix, precision, recall and F1."""
# K classes, N examples

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.evaluation.metrics import References
from antiphon.text import natural_order

__all__ = ["ClassScore", "Classes", "class_names", "compare_classes", "not_classes"]

MAX_CLASSES = 100
MIN_EXAMPLES = 5  # per class, on average


@dataclass(frozen=True)
class ClassScore:
    """Precision, recall and F1 of one class, in percent; `precision` is None if the class was never predicted."""

    name: str
    precision: float | None  # correct share of the outputs that are this class
    recall: float  # correct share of the examples of this class
    f1: float
    count: int  # examples


@dataclass(frozen=True)
class Classes:
    """The confusion matrix of a classification."""

    names: list[str]
    confusion: NDArray[np.int64]  # [K, K + 1]: references × outputs, the last column for all other outputs

    @property
    def scores(self) -> list[ClassScore]:
        """The scores of each class that has examples."""
        right, counts, predicted = np.diag(self.confusion), self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        return [
            ClassScore(
                name=name,
                precision=100.0 * float(right[k]) / float(predicted[k]) if predicted[k] else None,
                recall=100.0 * float(right[k]) / float(counts[k]),
                f1=200.0 * float(right[k]) / float(counts[k] + predicted[k]),
                count=int(counts[k]),
            )
            for k, name in enumerate(self.names)
            if counts[k]
        ]

    @property
    def mean(self) -> ClassScore:
        """The macro average; a class that is never predicted counts with precision 0."""
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
        """The share of correct outputs, in percent."""
        return 100.0 * float(np.trace(self.confusion)) / max(1, int(self.confusion.sum()))

    def ordered(self, names: Sequence[str]) -> Classes:
        """The same with these classes first, in this order, and all others behind them."""
        rest = [name for name in self.names if name not in names]
        places = [self.names.index(name) for name in (*names, *rest)]
        return Classes([self.names[k] for k in places], self.confusion[np.ix_(places, [*places, len(places)])])

    @property
    def by_size(self) -> list[str]:
        """The names of the classes, those with the most examples first."""
        counts = dict(zip(self.names, self.confusion.sum(axis=1), strict=True))
        return sorted(self.names, key=lambda name: -counts[name])

    @property
    def others(self) -> int:
        """The number of outputs that are none of the classes."""
        return int(self.confusion[:, -1].sum())


def class_names(references: References) -> list[str] | None:
    """All classes, sorted, if the references are classes: few different ones with many examples each; else None."""
    names = {text for texts in references for text in texts}
    if not 2 <= len(names) <= min(MAX_CLASSES, len(references) // MIN_EXAMPLES):
        return None
    return sorted(names, key=natural_order)


def not_classes(references: References) -> str:
    """A sentence that says why the references are not classes."""
    count = len({text for texts in references for text in texts})
    return (
        f"the targets are not classes: {count:,} different ones in {len(references):,} examples; classes are 2 to "
        f"{MAX_CLASSES} different targets with at least {MIN_EXAMPLES} examples each on average"
    )


def compare_classes(outputs: Sequence[str], references: References, names: list[str]) -> Classes:
    """Count the confusion; an example with several references belongs to the predicted one, else to the first."""
    number = {name: k for k, name in enumerate(names)}
    confusion = np.zeros((len(names), len(names) + 1), dtype=np.int64)
    for output, texts in zip(outputs, references, strict=True):
        right = output if output in texts else texts[0]
        confusion[number[right], number.get(output, len(names))] += 1
    return Classes(names, confusion)
