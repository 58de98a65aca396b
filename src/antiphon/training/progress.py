"""The position of a run and its evaluations: all that a resumed run needs beside the tensors, as plain JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from antiphon.evaluation.metrics import higher_is_better

__all__ = ["LoopStatus", "Progress", "best_evaluation", "evaluations_without_improvement", "is_better", "metric_value"]


@dataclass
class Progress:
    """A position in the batch plan and the evaluations so far. Everything else is derived from these."""

    update: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already used
    skipped: int = 0  # updates left out because the loss was not finite
    skipped_in_a_row: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0  # of the training loss since the last evaluation
    loss_count: int = 0
    history: list[dict[str, float]] = field(default_factory=list)  # one row an evaluation

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def mean_loss(self) -> float:
        """The training loss per token since the last evaluation."""
        return self.loss_sum / self.loss_count if self.loss_count else math.nan

    @property
    def evaluated(self) -> bool:
        """True if the current weights have been evaluated."""
        return bool(self.history) and self.history[-1]["update"] == self.update


@dataclass(frozen=True)
class LoopStatus:
    """Figures of the running process, stored with each evaluation."""

    epochs: float  # passes over the data so far
    learning_rate: float  # of the last update
    tokens_per_second: float
    padding: float


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
