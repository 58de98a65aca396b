"""An estimate of time and memory, from a few batches tried before training."""

from __future__ import annotations

import copy
import math
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from antiphon.config.schema import TrainingConfig
from antiphon.data.batches import Batches
from antiphon.data.source import Ints
from antiphon.models.model import SequenceModel
from antiphon.text import duration
from antiphon.training.optimizers import Optimizer, build_optimizer
from antiphon.training.step import training_step

__all__ = ["DryRun", "TrainingEstimate", "dry_run", "estimate_training"]

SAMPLES = 3  # batches that are timed, beside the largest


@dataclass(frozen=True)
class TrainingEstimate:
    """The expected cost of a training, evaluations apart."""

    seconds_per_epoch: float
    epochs: float
    peak_bytes: int | None  # of the whole process after a few updates; None where the system does not tell
    memory: dict[str, int] = field(default_factory=dict)  # bytes of what lasts: weights, gradients, optimizer

    def describe(self) -> str:
        """One line for the user."""
        epoch, total = duration(self.seconds_per_epoch), duration(self.seconds_per_epoch * self.epochs)
        memory = f", {self.peak_bytes / 1e9:.1f} GB of memory" if self.peak_bytes is not None else ""
        many = f"; {round(self.epochs, 2):g} epochs: {total} at most" if self.epochs != 1 else ""
        return f"estimate: {epoch} per epoch{many}, evaluations apart{memory}"


@dataclass(frozen=True)
class DryRun:
    """The size of a network, of an epoch and of the memory, and the time, before a training begins."""

    parameters: dict[str, int]  # by part of the network; a shared table counts once
    trained: int  # parameters without those of frozen parts
    source_tokens: int  # of an epoch, with </s>; positions of sources that are not text
    target_tokens: int  # of an epoch, with </s>
    padding: float
    batches: int  # of an epoch
    updates: int  # of an epoch
    estimate: TrainingEstimate

    def sections(self) -> dict[str, list[tuple[str, str]]]:
        """Rows of names and values, by subject."""
        count, estimate = sum(self.parameters.values()), self.estimate
        sizes = {**self.parameters, "all": count}
        if self.trained < count:
            sizes["frozen"] = count - self.trained
        tokens = [("source tokens", f"{self.source_tokens:,}")] if self.source_tokens else []
        speed = self.target_tokens / max(1e-9, estimate.seconds_per_epoch)
        whole = estimate.seconds_per_epoch * estimate.epochs
        memory = dict(estimate.memory)
        if estimate.peak_bytes is not None:
            memory["the rest: batches, activations, data, libraries"] = estimate.peak_bytes - sum(memory.values())
            memory["peak after a few updates; a run reaches up to twice as much"] = estimate.peak_bytes
        return {
            "parameters": [(name, f"{size:,}  {size / count:6.1%}") for name, size in sizes.items()],
            "an epoch": [
                *tokens,
                ("target tokens", f"{self.target_tokens:,}"),
                ("padding", f"{self.padding:.1%}"),
                ("batches", f"{self.batches:,}"),
                ("updates", f"{self.updates:,}"),
                ("time, evaluations apart", duration(estimate.seconds_per_epoch)),
                ("target tokens a second", f"{speed:,.0f}"),
            ],
            "training": [("epochs", f"{estimate.epochs:.4g}"), ("time at most, evaluations apart", duration(whole))],
            "memory": [(name, f"{size / 1e6:,.0f} MB") for name, size in memory.items()],
        }


def dry_run(
    config: TrainingConfig, model: SequenceModel, batches: Batches, plan: list[Ints], *, source_tokens: int
) -> DryRun:
    """Count the parameters and the tokens, and try a few updates on a copy of the model."""
    parameters: Counter[str] = Counter()
    for name, weight in model.named_parameters():
        parameters[".".join(name.split(".")[:2])] += weight.numel()
    return DryRun(
        parameters=dict(parameters),
        trained=sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
        source_tokens=source_tokens,
        target_tokens=sum(batches.tokens(rows) for rows in plan),
        padding=batches.padding(plan),
        batches=len(plan),
        updates=math.ceil(len(plan) / config.accumulate),
        estimate=estimate_training(config, model, batches, plan),
    )


def estimate_training(
    config: TrainingConfig, model: SequenceModel, batches: Batches, plan: list[Ints]
) -> TrainingEstimate:
    """Time updates with a few batches on a copy of the model; random numbers and weights stay as they are.

    The largest batch goes first, untimed: it shows how much memory training needs, and warms the machine up.
    """
    sizes = np.array([batches.tokens(rows) for rows in plan])
    order = np.argsort(sizes, kind="stable")
    samples = dict.fromkeys(int(order[len(order) * (2 * n + 1) // (2 * SAMPLES)]) for n in range(SAMPLES))
    with torch.random.fork_rng(devices=[]):
        tried = copy.deepcopy(model).train()
        optimizer = build_optimizer(config, tried)
        _seconds(config, tried, optimizer, batches, plan[order[-1]])
        seconds = sum(_seconds(config, tried, optimizer, batches, plan[index]) for index in samples)
    per_token = seconds / max(1, int(sizes[list(samples)].sum()))
    updates = len(plan) / config.accumulate * config.epochs
    share = 1.0 if config.max_updates is None else min(1.0, config.max_updates / max(1.0, updates))
    memory = {
        "weights": sum(weight.nbytes for weight in tried.parameters()),
        "gradients": sum(weight.grad.nbytes for weight in tried.parameters() if weight.grad is not None),
        "optimizer": sum(state.nbytes for state in optimizer.state.values()),
    }
    return TrainingEstimate(per_token * float(sizes.sum()), share * config.epochs, _peak_bytes(), memory)


def _seconds(config: TrainingConfig, model: SequenceModel, optimizer: Optimizer, batches: Batches, rows: Ints) -> float:
    """The time of a forward and a backward pass and, by the batch, of moving the weights (here by 0)."""
    began = time.perf_counter()
    model.zero_grad()
    loss = training_step(model, batches.collate(rows, epoch=0), config).loss
    loss.backward(scale=1.0 / max(1, loss.count))
    computed = time.perf_counter()
    clip_grad_norm_(model.parameters(), config.clip or math.inf)
    optimizer.step(0.0)
    return computed - began + (time.perf_counter() - computed) / config.accumulate


def _peak_bytes() -> int | None:
    """The peak memory of this process so far."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
