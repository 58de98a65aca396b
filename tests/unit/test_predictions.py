"""The predictions of an evaluation: the metrics of each example, and the order of the worst."""

from __future__ import annotations

import pytest
from test_language_model import LETTERS, make
from test_likelihood import examples

from antiphon.evaluation.evaluate import evaluate_examples
from antiphon.evaluation.metrics import METRICS
from antiphon.evaluation.predictions import Prediction, example_values, worst_predictions


def prediction(line: int, answer: str | None, *references: str, **values: float) -> Prediction:
    return Prediction(line, "s", references, answer, -1.25, [], values)


@pytest.mark.parametrize(
    ("metrics", "names"),
    [
        (["cer"], ["cer"]),
        (["bleu"], ["chrf"]),
        (["bleu", "cer", "chrf", "bleu_2"], ["chrf", "cer"]),
        (["exact_match", "bleu_1"], ["exact_match", "chrf"]),
    ],
)
def test_each_metric_for_each_example_and_chrf_for_bleu(metrics: list[str], names: list[str]) -> None:
    outputs, references = ["a b", "c"], [("a b",), ("a d", "d")]
    known = {name: METRICS[name].checked_statistics(outputs, references) for name in metrics}
    found = example_values({name: METRICS[name] for name in metrics}, known, outputs, references)
    assert list(found) == names
    for name, column in found.items():
        alone = [METRICS[name]([output], [texts]) for output, texts in zip(outputs, references, strict=True)]
        assert column == pytest.approx(alone)


def test_the_worst_come_first_and_right_answers_never() -> None:
    predictions = [
        prediction(1, "a  b", "x", "a b", exact_match=0.0, cer=900.0),  # right but for a space
        prediction(2, "a", "b", exact_match=0.0, cer=100.0),
        prediction(3, "", "b", exact_match=0.0, cer=300.0),
        prediction(4, "c", "b", exact_match=0.0, cer=100.0),
        prediction(5, "d", "b", exact_match=50.0, cer=0.0),
    ]
    assert [found.line for found in worst_predictions(predictions, 9)] == [3, 2, 4, 5]
    assert [found.line for found in worst_predictions(predictions, 1)] == [3]
    texts = [prediction(line, None, "t", perplexity=float(line)) for line in (4, 6, 5)]
    assert [found.line for found in worst_predictions(texts, 2)] == [6, 5]


@pytest.mark.parametrize("window", [None, 5])
def test_texts_of_a_language_model(window: int | None) -> None:
    """Each line has its own perplexity, also in a stream."""
    generator = make(window=window)
    result = evaluate_examples(generator, examples(["abcd", "", "xfed"]), metrics=["perplexity", "loss"])
    assert [(found.answer, found.source, found.flags[:1]) for found in result.predictions] == [
        (None, "", []), (None, "", []), (None, "", ["unknown symbols in the text: 'x' x 1"])
    ]  # fmt: skip
    losses = [found.values["loss"] for found in result.predictions]
    tokens = [len(LETTERS.encode(text)) + 1 for text in ("abcd", "", "xfed")]
    total = sum(loss * count for loss, count in zip(losses, tokens, strict=True))
    assert total / sum(tokens) == pytest.approx(result.values["loss"].value)
    assert [found.values["perplexity"] for found in result.worst(3)] == sorted(
        (found.values["perplexity"] for found in result.predictions), reverse=True
    )
