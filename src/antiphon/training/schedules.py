"""The learning rate as a pure function of where training stands."""

from __future__ import annotations

import math

from antiphon.config.schema import TrainingConfig
from antiphon.training.progress import evaluations_since_better

__all__ = ["learning_rate"]


def learning_rate(config: TrainingConfig, history: list[dict[str, float]], *, number: int, updates: int) -> float:
    """The rate of update `number` (from 1) of `updates` in all; `history` are the evaluations before it."""
    climb = min(1.0, number / config.warmup) if config.warmup else 1.0
    return config.learning_rate * climb * _shape(config, history, number, updates)


def _shape(config: TrainingConfig, history: list[dict[str, float]], number: int, updates: int) -> float:
    if config.schedule == "inverse-sqrt":
        return math.sqrt(max(1, config.warmup) / max(number, config.warmup, 1))
    if config.schedule == "cosine":
        done = max(0, number - config.warmup) / max(1, updates - config.warmup + 1)  # + 1: the last one learns, too
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
    if config.schedule == "plateau":
        return config.plateau_factor ** _plateaus(config, history)
    return 1.0


def _plateaus(config: TrainingConfig, history: list[dict[str, float]]) -> int:
    """How often `plateau_patience` evaluations in a row brought nothing better."""
    waits = evaluations_since_better(history, config.metric)
    return sum(waited > 0 and waited % config.plateau_patience == 0 for waited in waits)
