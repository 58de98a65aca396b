"""Optimizers, whose state is named tensors that can be saved without pickle.

The steps are torch's functions. Its classes are not used: their first step imports torch's compiler, which takes
seconds whenever training starts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from antiphon.config.schema import TrainingConfig

__all__ = ["Optimizer", "build_optimizer"]

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Optimizer(ABC):
    """Updates the trainable parameters of a model; one without a gradient stays as it is."""

    def __init__(self, model: nn.Module, *, weight_decay: float) -> None:
        self.parameters = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.weight_decay = weight_decay
        self.state: dict[str, Tensor] = {}  # KEY/PARAMETER → tensor

    def step(self, rate: float) -> None:
        """Move each parameter along its gradient."""
        moved = {name: weight for name, weight in self.parameters.items() if weight.grad is not None}
        with torch.no_grad():
            self._move(list(moved), list(moved.values()), [weight.grad for weight in moved.values()], rate)  # type: ignore[misc]

    @abstractmethod
    def _move(self, names: list[str], parameters: list[Tensor], gradients: list[Tensor], rate: float) -> None: ...

    def _state_of(self, key: str, names: list[str]) -> list[Tensor]:
        """The state `key` of these parameters, 0 at first: a number for `step`, else a tensor like the parameter."""
        for name in names:
            if f"{key}/{name}" not in self.state:
                weight = self.parameters[name]
                zeros = torch.zeros((), device=weight.device) if key == "step" else torch.zeros_like(weight)
                self.state[f"{key}/{name}"] = zeros.detach()
        return [self.state[f"{key}/{name}"] for name in names]

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of the state."""
        return {path: tensor.clone() for path, tensor in self.state.items()}

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Restore a state, as a copy: memory-mapped files are not aligned as torch needs it."""
        self.state = {path: tensor.clone() for path, tensor in tensors.items()}


class Adam(Optimizer):
    """m ← β1 m + (1 - β1) g,  v ← β2 v + (1 - β2) g²,  θ ← θ - η m̂ / (√v̂ + ε)

    Weight decay is part of g or, if `decoupled` (AdamW), acts on θ itself.
    """

    def __init__(self, model: nn.Module, *, weight_decay: float = 0.0, decoupled: bool = False) -> None:
        super().__init__(model, weight_decay=weight_decay)
        self.function = adamw if decoupled else adam

    def _move(self, names: list[str], parameters: list[Tensor], gradients: list[Tensor], rate: float) -> None:
        m, v, steps = (self._state_of(key, names) for key in ("exp_avg", "exp_avg_sq", "step"))
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
        u: list[Tensor | None] = [*self._state_of("momentum_buffer", names)] if self.momentum else [None] * len(names)
        sgd(
            parameters, gradients, u, fused=True, weight_decay=self.weight_decay, momentum=self.momentum, lr=rate,
            dampening=0.0, nesterov=False, maximize=False,
        )  # fmt: skip


def build_optimizer(config: TrainingConfig, model: nn.Module) -> Optimizer:
    optimizer = config.optimizer
    if optimizer.kind == "sgd":
        return SGD(model, weight_decay=optimizer.weight_decay, momentum=optimizer.momentum)
    return Adam(model, weight_decay=optimizer.weight_decay, decoupled=optimizer.kind == "adamw")
