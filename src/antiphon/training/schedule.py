"""Learning rate, best checkpoint, end of patience: pure functions of the update and the evaluations so far."""

from __future__ import annotations

import math

from antiphon.config.schema import TrainingConfig
from antiphon.evaluation.metrics import higher_is_better

__all__ = [
    "best_evaluation", "evaluations_without_improvement", "has_learnt", "is_better", "learning_rate", "metric_value",
    "patience_used",
]  # fmt: skip

CLEARLY_BELOW = 0.95  # of the loss of a unigram model, until which patience does not count


def learning_rate(config: TrainingConfig, history: list[dict[str, float]], *, number: int, updates: int) -> float:
    """The learning rate of update `number` (from 1) of `updates`; `history` holds the evaluations before it."""
    warmup = min(1.0, number / config.schedule.warmup) if config.schedule.warmup else 1.0
    return config.learning_rate * warmup * _schedule(config, history, number, updates)


def _schedule(config: TrainingConfig, history: list[dict[str, float]], number: int, updates: int) -> float:
    schedule = config.schedule
    if schedule.kind == "inverse-sqrt":
        return math.sqrt(max(1, schedule.warmup) / max(number, schedule.warmup, 1))
    if schedule.kind == "cosine":
        done = max(0, number - schedule.warmup) / max(1, updates - schedule.warmup + 1)  # + 1: the last rate is not 0
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
    if schedule.kind == "plateau":
        waits = evaluations_without_improvement(history, config.metric)
        return schedule.factor ** sum(waited > 0 and waited % schedule.patience == 0 for waited in waits)
    return 1.0


def metric_value(row: dict[str, float], metric: str) -> float:
    """The value of a metric in an evaluation; the loss is that on dev."""
    return row["dev_loss" if metric == "loss" else metric]


def is_better(metric: str, value: float, than: float) -> bool:
    """Compare two values of a metric. NaN never wins."""
    if math.isnan(value):
        return False
    if math.isnan(than):
        return True
    return value > than if higher_is_better(metric) else value < than


def best_evaluation(history: list[dict[str, float]], metric: str) -> dict[str, float] | None:
    """The evaluation with the best value; on a tie the one with the lower loss, then the first.

    An evaluation whose loss is not finite does not count.
    """
    best: dict[str, float] | None = None
    for row in history:
        if math.isfinite(row["dev_loss"]) and (best is None or _beats(row, best, metric)):
            best = row
    return best


def _beats(row: dict[str, float], best: dict[str, float], metric: str) -> bool:
    value, than = metric_value(row, metric), metric_value(best, metric)
    return is_better(metric, value, than) or (value == than and row["dev_loss"] < best["dev_loss"])


def evaluations_without_improvement(history: list[dict[str, float]], metric: str) -> list[int]:
    """For each evaluation, the number of evaluations since the metric last improved; a tie is no improvement."""
    best, waited, waits = math.nan, 0, []
    for row in history:
        better = math.isfinite(row["dev_loss"]) and is_better(metric, metric_value(row, metric), best)
        best, waited = (metric_value(row, metric), 0) if better else (best, waited + 1)
        waits.append(waited)
    return waits


def patience_used(config: TrainingConfig, history: list[dict[str, float]], unigram_loss: float) -> int:
    """The number of evaluations without improvement that count for early stopping.

    None counts before `min_updates`, nor before the dev loss has been clearly below that of a unigram model: a loss
    often stands still there before attention is learnt.
    """
    lowest, counted = math.inf, 0
    for row in history:
        lowest = min(lowest, row["dev_loss"])  # which NaN never is
        counted += row["update"] >= config.min_updates and lowest < CLEARLY_BELOW * unigram_loss
    waits = evaluations_without_improvement(history, config.metric)
    return min(waits[-1], counted) if waits else 0


def has_learnt(history: list[dict[str, float]], unigram_loss: float) -> bool:
    """True if the dev loss was ever below that of a unigram model."""
    return any(row["dev_loss"] < unigram_loss for row in history)
