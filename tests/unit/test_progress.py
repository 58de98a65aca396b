"""The progress of training, and its best evaluation."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest

from antiphon.config.schema import Metric
from antiphon.evaluation.metrics import HIGHER_IS_BETTER
from antiphon.training.checkpoints import Progress
from antiphon.training.schedule import best_evaluation, evaluations_without_improvement, is_better, metric_value


def rows(*values: float, metric: str = "dev_loss") -> list[dict[str, float]]:
    return [{"update": 10.0 * number, "dev_loss": 1.0, metric: value} for number, value in enumerate(values, start=1)]


def test_progress_survives_json() -> None:
    progress = Progress(
        update=7, epoch=2, batch=3, skipped=1, skipped_in_a_row=1, seconds=1.5, loss_sum=0.1 + 0.2, loss_count=9
    )
    progress.history = rows(2.5, 1 / 3)
    assert Progress(**json.loads(json.dumps(asdict(progress)))) == progress


def test_mean_loss_is_a_sum_by_a_count() -> None:
    assert Progress(loss_sum=6.0, loss_count=4).mean_loss == 1.5
    assert math.isnan(Progress().mean_loss)


def test_evaluated_means_these_weights() -> None:
    assert not Progress(update=10).evaluated
    assert Progress(update=10, history=rows(1.0)).evaluated
    assert not Progress(update=11, history=rows(1.0)).evaluated


def test_loss_is_the_dev_loss() -> None:
    row = {"dev_loss": 1.0, "train_loss": 9.0, "perplexity": 2.7, "bleu": 30.0}
    assert metric_value(row, "loss") == 1.0
    assert metric_value(row, "perplexity") == 2.7
    assert metric_value(row, "bleu") == 30.0


@pytest.mark.parametrize(("values", "best"), [([3, 2, 1], 30), ([3, 1, 2], 20), ([1, 1, 1], 10), ([2, math.nan], 10)])
def test_best_is_the_first_that_no_other_beats(values: list[float], best: int) -> None:
    row = best_evaluation(rows(*values), "loss")
    assert row is not None
    assert row["update"] == best


def test_best_of_rising_metrics_and_of_nothing() -> None:
    row = best_evaluation(rows(10, 30, 30, 20, metric="exact_match"), "exact_match")
    assert row is not None
    assert row["update"] == 20
    assert best_evaluation([], "loss") is None
    assert evaluations_without_improvement([], "loss") == []


def test_a_number_beats_no_number() -> None:
    row = best_evaluation(rows(math.nan, 5, math.nan), "loss")
    assert row is not None
    assert row["update"] == 20
    assert best_evaluation(rows(math.nan, math.inf), "loss") is None
    assert not is_better("loss", math.nan, math.nan)
    assert is_better("loss", 5.0, math.nan)


@pytest.mark.parametrize(("values", "since"), [([3, 2, 1], 0), ([1, 2, 3], 2), ([2, 1, 1, 1], 2), ([3, 1, 2], 1)])
def test_evaluations_since_the_best(values: list[float], since: int) -> None:
    assert evaluations_without_improvement(rows(*values), "loss")[-1] == since


def test_of_equals_the_lower_loss_is_best_but_not_better() -> None:
    """A lower loss chooses the weights; it does not make patience longer."""
    history = [
        {"update": 1.0, "dev_loss": 3.0, "exact_match": 0.0},
        {"update": 2.0, "dev_loss": 2.0, "exact_match": 0.0},
        {"update": 3.0, "dev_loss": 2.5, "exact_match": 0.0},
    ]
    assert best_evaluation(history, "exact_match") is history[1]
    assert evaluations_without_improvement(history, "exact_match") == [0, 1, 2]


def test_every_metric_of_the_config_has_a_direction() -> None:
    assert set(HIGHER_IS_BETTER) == set(Metric.__args__)  # type: ignore[attr-defined]
    falling = {name for name, higher in HIGHER_IS_BETTER.items() if not higher}
    likelihoods = {"loss", "perplexity", "word_perplexity", "bits_per_character"}
    assert falling == likelihoods | {"token_error_rate", "cer", "wer", "per", "ter"}
