"""The learning rate as a pure function of where training stands."""

from __future__ import annotations

import math

from antiphon.config.schema import TrainingConfig
from antiphon.training.progress import Progress, best_row

__all__ = ["learning_rate"]


def learning_rate(config: TrainingConfig, progress: Progress, updates: int) -> float:
    """The rate of the next update, of `updates` in all."""
    number = progress.update + 1
    climb = min(1.0, number / config.warmup) if config.warmup else 1.0
    return config.learning_rate * climb * _shape(config, progress, number, updates)


def _shape(config: TrainingConfig, progress: Progress, number: int, updates: int) -> float:
    if config.schedule == "inverse-sqrt":
        return math.sqrt(max(1, config.warmup) / max(number, config.warmup, 1))
    if config.schedule == "cosine":
        done = max(0, number - config.warmup) / max(1, updates - config.warmup + 1)  # + 1: the last one learns, too
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
    if config.schedule == "plateau":
        return config.plateau_factor ** _plateaus(config, progress)
    return 1.0


def _plateaus(config: TrainingConfig, progress: Progress) -> int:
    """How often `plateau_patience` evaluations in a row brought nothing better."""
    plateaus = waited = 0
    for count, row in enumerate(progress.history, start=1):
        waited = 0 if best_row(progress.history[:count], config.metric) is row else waited + 1
        if waited == config.plateau_patience:
            plateaus, waited = plateaus + 1, 0
    return plateaus
