"""Optimisers. What they remember is named tensors, so that it can be saved without pickle.

The steps are torch's functions. Its classes are not used: their first step imports torch's compiler, which takes
seconds at each start of a training.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from antiphon.config.schema import TrainingConfig
from antiphon.training.progress import evaluations_without_improvement

__all__ = ["SGD", "Adam", "Optimizer", "build_optimizer", "learning_rate"]

# The learning rate as a pure function of where training stands.


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
    waits = evaluations_without_improvement(history, config.metric)
    return sum(waited > 0 and waited % config.plateau_patience == 0 for waited in waits)


BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Optimizer(ABC):
    """Moves the parameters of a model that learn; one without a gradient stays where it is."""

    def __init__(self, model: nn.Module, *, weight_decay: float) -> None:
        self.parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self.weight_decay = weight_decay
        self.memory: dict[str, Tensor] = {}  # KEY/PARAMETER → tensor

    def step(self, rate: float) -> None:
        """Each parameter along its gradient."""
        moved = {name: one for name, one in self.parameters.items() if one.grad is not None}
        with torch.no_grad():
            self._move(list(moved), list(moved.values()), [one.grad for one in moved.values()], rate)  # type: ignore[misc]

    @abstractmethod
    def _move(self, names: list[str], parameters: list[Tensor], gradients: list[Tensor], rate: float) -> None: ...

    def _remembered(self, key: str, names: list[str]) -> list[Tensor]:
        """What is known of parameters: zeros at first. `step` is one number, all others are as large as a parameter."""
        for name in names:
            if f"{key}/{name}" not in self.memory:
                one = self.parameters[name]
                empty = torch.zeros((), device=one.device) if key == "step" else torch.zeros_like(one)
                self.memory[f"{key}/{name}"] = empty.detach()
        return [self.memory[f"{key}/{name}"] for name in names]

    def tensors(self) -> dict[str, Tensor]:
        """A copy of the memory."""
        return {path: tensor.clone() for path, tensor in self.memory.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """The opposite of `tensors`. Copies, because mapped files are not aligned as torch aligns."""
        self.memory = {path: tensor.clone() for path, tensor in tensors.items()}


class Adam(Optimizer):
    """m ← β1 m + (1 - β1) g,  v ← β2 v + (1 - β2) g²,  θ ← θ - η m̂ / (√v̂ + ε)

    The pull towards 0 is part of g, or, when `decoupled` (AdamW), acts on θ itself.
    """

    def __init__(self, model: nn.Module, *, weight_decay: float = 0.0, decoupled: bool = False) -> None:
        super().__init__(model, weight_decay=weight_decay)
        self.function = adamw if decoupled else adam

    def _move(self, names: list[str], parameters: list[Tensor], gradients: list[Tensor], rate: float) -> None:
        m, v, steps = (self._remembered(key, names) for key in ("exp_avg", "exp_avg_sq", "step"))
        self.function(
            parameters, gradients, m, v, [], steps, fused=True, amsgrad=False, beta1=BETA1, beta2=BETA2, lr=rate,
            weight_decay=self.weight_decay, eps=EPSILON, maximize=False,
        )  # fmt: skip


class SGD(Optimizer):
    """u ← μ u + g,  θ ← θ - η u"""

    def __init__(self, model: nn.Module, *, weight_decay: float = 0.0, momentum: float = 0.0) -> None:
        super().__init__(model, weight_decay=weight_decay)
        self.momentum = momentum

    def _move(self, names: list[str], parameters: list[Tensor], gradients: list[Tensor], rate: float) -> None:
        u: list[Tensor | None] = [*self._remembered("momentum_buffer", names)] if self.momentum else [None] * len(names)
        sgd(
            parameters, gradients, u, fused=True, weight_decay=self.weight_decay, momentum=self.momentum, lr=rate,
            dampening=0.0, nesterov=False, maximize=False,
        )  # fmt: skip


def build_optimizer(config: TrainingConfig, model: nn.Module) -> Optimizer:
    if config.optimizer == "sgd":
        return SGD(model, weight_decay=config.weight_decay, momentum=config.momentum)
    return Adam(model, weight_decay=config.weight_decay, decoupled=config.optimizer == "adamw")
