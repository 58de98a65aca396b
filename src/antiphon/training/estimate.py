"""An estimate of time and memory, from a few batches tried before training."""

from __future__ import annotations

import copy
import sys
import time
from dataclasses import dataclass

import numpy as np
import torch

from antiphon.config.schema import TrainingConfig
from antiphon.data.batches import Batches
from antiphon.data.source import Ints
from antiphon.models.model import SequenceModel
from antiphon.text import duration
from antiphon.training.step import training_step

__all__ = ["TrainingEstimate", "estimate_training"]

SAMPLES = 3  # batches that are timed, beside the largest


@dataclass(frozen=True)
class TrainingEstimate:
    """The expected cost of a training, evaluations apart."""

    seconds_per_epoch: float
    epochs: float
    peak_bytes: int | None  # of the whole process; None where the system does not tell

    def describe(self) -> str:
        """One line for the user."""
        epoch, total = duration(self.seconds_per_epoch), duration(self.seconds_per_epoch * self.epochs)
        memory = f", {self.peak_bytes / 1e9:.1f} GB of memory" if self.peak_bytes is not None else ""
        many = f"; {round(self.epochs, 2):g} epochs: {total} at most" if self.epochs != 1 else ""
        return f"estimate: {epoch} per epoch{many}, evaluations apart{memory}"


def estimate_training(
    config: TrainingConfig, model: SequenceModel, batches: Batches, plan: list[Ints]
) -> TrainingEstimate:
    """Time the largest batch and a few others on a copy of the model; random numbers and weights stay as they are.

    The largest goes first, untimed: it shows how much memory training needs, and warms the machine up.
    """
    sizes = np.array([batches.tokens(rows) for rows in plan])
    order = np.argsort(sizes, kind="stable")
    samples = dict.fromkeys(int(order[len(order) * (2 * n + 1) // (2 * SAMPLES)]) for n in range(SAMPLES))
    with torch.random.fork_rng(devices=[]):
        tried = copy.deepcopy(model).train()
        _seconds(config, tried, batches, plan[order[-1]])
        seconds = sum(_seconds(config, tried, batches, plan[index]) for index in samples)
    per_token = seconds / max(1, int(sizes[list(samples)].sum()))
    updates = len(plan) / config.accumulate * config.epochs
    share = 1.0 if config.max_updates is None else min(1.0, config.max_updates / max(1.0, updates))
    return TrainingEstimate(per_token * float(sizes.sum()), share * config.epochs, _peak_bytes(tried))


def _seconds(config: TrainingConfig, model: SequenceModel, batches: Batches, rows: Ints) -> float:
    """The time of a forward and a backward pass."""
    began = time.perf_counter()
    loss = training_step(model, batches.collate(rows, epoch=0), config).loss
    loss.backward(scale=1.0 / max(1, loss.count))
    return time.perf_counter() - began


def _peak_bytes(model: SequenceModel) -> int | None:
    """The peak memory of this process so far, and the two moments that Adam keeps of each weight."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    weights = sum(weight.nbytes for weight in model.parameters() if weight.requires_grad)
    return peak + 2 * weights
