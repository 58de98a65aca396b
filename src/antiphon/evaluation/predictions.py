"""The examples of an evaluation one by one: answer, flags and the value of each metric; the worst of them."""
# N examples

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from antiphon.data.pairs import Example
from antiphon.evaluation.metrics import Metric, References, Statistics, chrf, higher_is_better, words
from antiphon.inference.generation import Generation

__all__ = ["Prediction", "example_values", "join_predictions", "worst_predictions"]

OF_CORPORA = ("bleu", "bleu_1", "bleu_2", "bleu_3")  # 0 or nearly so for most single sentences


@dataclass(frozen=True)
class Prediction:
    """An example with its answer; where nothing was decoded, as for a language model, there is none."""

    line: int  # the first of the example in its file
    source: str  # a text, or the path of a file; several have a tab between them
    references: tuple[str, ...]
    answer: str | None
    score: float | None  # of the search
    flags: list[str]
    values: dict[str, float]  # each metric for this example alone, the one to rank by first

    @property
    def right(self) -> bool:
        """True if the answer has the words of a reference."""
        return self.answer is not None and words(self.answer) in [words(text) for text in self.references]


def example_values(
    chosen: Mapping[str, Metric], known: Mapping[str, Statistics], outputs: Sequence[str], references: References
) -> dict[str, list[float]]:
    """Each metric for each example alone; `known` has their statistics. chrF takes the place of BLEU."""
    names = dict.fromkeys(chrf.name if name in OF_CORPORA else name for name in chosen)
    metrics = {name: chosen.get(name, chrf) for name in names}
    missing = {name: metrics[name].checked_statistics(outputs, references) for name in names if name not in known}
    statistics = {**known, **missing}
    return {name: metric.value(statistics[name]).tolist() for name, metric in metrics.items()}


def join_predictions(
    examples: Sequence[Example],
    references: References,
    answers: Sequence[Generation],
    flags: Sequence[list[str]],
    values: Mapping[str, Sequence[float]],
) -> list[Prediction]:
    """A prediction for each example; without `answers` there was nothing to decode."""
    return [
        Prediction(
            line=example.line,
            source=example.source,
            references=references[row],
            answer=answers[row].text if answers else None,
            score=answers[row].score if answers else None,
            flags=flags[row],
            values={name: column[row] for name, column in values.items()},
        )
        for row, example in enumerate(examples)
    ]


def worst_predictions(predictions: Sequence[Prediction], count: int) -> list[Prediction]:
    """The `count` worst by the first of their metrics; the next ones decide between equals. Right answers are none."""

    def merits(prediction: Prediction) -> list[float]:
        return [value if higher_is_better(name) else -value for name, value in prediction.values.items()]

    return sorted((prediction for prediction in predictions if not prediction.right), key=merits)[:count]
