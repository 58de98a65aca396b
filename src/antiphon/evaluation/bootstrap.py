"""How far a metric would move with other sentences of the same kind."""
# N sentences, d statistics, R resamples

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from antiphon.evaluation.metrics import Metric, References, Statistics

__all__ = ["Estimate", "estimate", "estimate_value"]

CELLS = 4_000_000  # of the table resamples x sentences that is in memory at a time


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


def estimate(
    metric: Metric, outputs: Sequence[str], references: References, seed: int = 1, samples: int = 1000
) -> Estimate:
    """The metric over all sentences, with its interval."""
    return _interval(metric.checked_statistics(outputs, references), metric.value, seed, samples)


def estimate_value(
    statistics: Statistics, value: Callable[[Statistics], Statistics], seed: int = 1, samples: int = 1000
) -> Estimate:
    """What the sum of statistics [N, d] is worth, with its interval."""
    return _interval(statistics, value, seed, samples)


def _interval(statistics: Statistics, value: Callable[[Statistics], Statistics], seed: int, samples: int) -> Estimate:
    """The 2.5 and 97.5 percentiles over `samples` draws of N sentences with replacement; 0: no interval."""
    whole = float(value(statistics.sum(axis=0)))
    if len(statistics) == 0 or samples == 0:
        return Estimate(whole, whole, whole)
    low, high = np.percentile(value(_resampled_sums(statistics, seed, samples)), [2.5, 97.5])
    return Estimate(whole, float(low), float(high))


def _resampled_sums(statistics: Statistics, seed: int, samples: int) -> Statistics:
    """Sums [R, d]: how often each sentence was drawn, times its statistics."""
    N = len(statistics)
    generator = np.random.default_rng(seed)
    sums = []
    at_once = max(1, CELLS // N)
    for first in range(0, samples, at_once):
        rows = min(at_once, samples - first)
        drawn = generator.integers(N, size=(rows, N)) + N * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * N).reshape(rows, N)
        sums.append(times @ statistics)
    return np.concatenate(sums)
