"""Intervals: against a resampling written as a loop, and against theory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from antiphon.evaluation import intervals
from antiphon.evaluation.intervals import Estimate, estimate_value
from antiphon.evaluation.metrics import METRICS, Metric, References, exact_match, wer

OUTPUTS = ["a b c d", "a", "b c", "d e f a", "", "c c c"] * 5
REFERENCES = [("a b c x",), ("a", "b"), ("c b",), ("d e f a",), ("a",), ("c d c",)] * 5
TEXTS = OUTPUTS, REFERENCES


def as_spans(texts: Sequence[str]) -> Any:  # noqa: ANN401 (a list or a tuple, as it is given)
    """Each word as the label of a span of its own."""
    return type(texts)(" ".join(f"B-{word}" for word in text.split()) for text in texts)  # type: ignore[call-arg]


def estimate(
    metric: Metric, outputs: list[str], references: References, seed: int = 1, samples: int = 1000
) -> Estimate:
    return estimate_value(metric.checked_statistics(outputs, references), metric.value, seed, samples)


@pytest.mark.parametrize("name", METRICS)
def test_the_value_is_the_metric_and_lies_in_its_interval(name: str) -> None:
    outputs, references = (as_spans(OUTPUTS), [as_spans(row) for row in REFERENCES]) if name == "span_f1" else TEXTS
    found = estimate(METRICS[name], outputs, references, samples=200)
    assert found.value == METRICS[name](outputs, references)
    assert found.low <= found.value <= found.high
    assert found.low < found.high


@pytest.mark.parametrize("name", ["wer", "bleu"])
def test_as_a_loop_over_resampled_sentences(name: str) -> None:
    metric, count = METRICS[name], len(OUTPUTS)
    draws = np.random.default_rng(3).integers(count, size=(50, count))
    values = [metric([OUTPUTS[i] for i in rows], [REFERENCES[i] for i in rows]) for rows in draws]
    low, high = np.percentile(values, [2.5, 97.5])
    found = estimate(metric, OUTPUTS, REFERENCES, seed=3, samples=50)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_exact_match_has_about_the_normal_interval() -> None:
    outputs = ["right"] * 300 + ["wrong"] * 100
    found = estimate(exact_match, outputs, [("right",)] * 400, samples=2000)
    half = 100 * 1.96 * math.sqrt(0.75 * 0.25 / 400)
    assert found.value == 75
    assert found.high - found.low == pytest.approx(2 * half, rel=0.1)


def test_more_sentences_make_it_narrower() -> None:
    few = estimate(wer, OUTPUTS, REFERENCES)
    many = estimate(wer, OUTPUTS * 16, REFERENCES * 16)
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(4, rel=0.2)


def test_the_seed_decides() -> None:
    assert estimate(wer, OUTPUTS, REFERENCES, seed=5) == estimate(wer, OUTPUTS, REFERENCES, seed=5)
    assert estimate(wer, OUTPUTS, REFERENCES, seed=5) != estimate(wer, OUTPUTS, REFERENCES, seed=6)


def test_the_size_of_the_table_in_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = estimate(wer, OUTPUTS, REFERENCES, samples=100)
    monkeypatch.setattr(intervals, "CELLS", 7 * len(OUTPUTS))
    assert estimate(wer, OUTPUTS, REFERENCES, samples=100) == whole


def ratio(totals: list[float], counts: list[float], samples: int = 1000) -> Estimate:
    """sum(totals) / sum(counts), such as the loss per token."""
    statistics = np.array([totals, counts], dtype=np.float64).T
    return estimate_value(statistics, lambda sums: sums[..., 0] / np.maximum(sums[..., 1], 1.0), samples=samples)


def test_no_sentences() -> None:
    assert estimate(wer, [], []) == Estimate(0.0, 0.0, 0.0)
    assert ratio([], []) == Estimate(0.0, 0.0, 0.0)


def test_a_single_sentence_has_no_width() -> None:
    assert estimate(wer, ["a b"], [("a c",)]) == Estimate(50.0, 50.0, 50.0)


def test_without_samples_there_is_only_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    value, mean = estimate(wer, OUTPUTS, REFERENCES).value, ratio([2.0, 30.0], [1, 3]).value
    monkeypatch.setattr(intervals, "_resampled_sums", None)
    assert estimate(wer, OUTPUTS, REFERENCES, samples=0) == Estimate(value, value, value)
    assert ratio([2.0, 30.0], [1, 3], samples=0) == Estimate(mean, mean, mean)


def test_a_ratio_of_sums_is_not_a_mean_of_ratios() -> None:
    found = ratio([2.0, 30.0], [1, 3])
    assert found.value == 8.0
    assert (found.low, found.high) == (2.0, 10.0)
