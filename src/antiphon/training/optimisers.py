"""Optimisers, and their state as named tensors (so that it can be saved without pickle)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from antiphon.config.schema import TrainingConfig

__all__ = ["build_optimizer", "clip_gradients", "optimizer_tensors", "restore_optimizer"]


def build_optimizer(config: TrainingConfig, model: nn.Module) -> Optimizer:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decay = config.weight_decay
    if config.optimizer == "sgd":
        return DenseSGD(parameters, lr=config.learning_rate, momentum=config.momentum, weight_decay=decay, fused=True)
    kind = RowsAdam if config.optimizer == "adam" else RowsAdamW
    return kind(parameters, lr=config.learning_rate, weight_decay=decay, fused=True)


class DenseSGD(SGD):
    """SGD; what has a sparse gradient is treated like all else."""

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        _make_dense(self)
        loss: float | None = super().step(closure)
        return loss


class RowsAdam(Adam):
    """Adam, by rows where a gradient is sparse (see `step_by_rows`)."""

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        step_by_rows(self)
        loss: float | None = super().step(closure)
        return loss


class RowsAdamW(AdamW):
    """AdamW, by rows where a gradient is sparse (see `step_by_rows`)."""

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        step_by_rows(self)
        loss: float | None = super().step(closure)
        return loss


@torch.no_grad()
def step_by_rows(optimizer: Optimizer) -> None:
    """m ← β1 m + (1 - β1) g,  v ← β2 v + (1 - β2) g²,  w ← w - η m̂ / (√v̂ + ε), for the rows that have a gradient

    Of a large table a batch touches a few rows. The others stay as they are, with their moments: updates of 512 tokens
    then take a sixth less time (n-grams of the recipe g2p). With weight decay, which pulls at every row, all is dense.
    """
    for group in optimizer.param_groups:
        if group["weight_decay"]:
            _make_dense(optimizer)
            return
        for parameter in group["params"]:
            if parameter.grad is not None and parameter.grad.is_sparse:
                gradient, parameter.grad = parameter.grad.coalesce(), None
                _adam_of_rows(parameter, gradient, optimizer.state[parameter], group)


def _adam_of_rows(parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    if not state:
        state["step"] = torch.tensor(0.0)
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
    state["step"] += 1
    rows, values = gradient.indices()[0], gradient.values()
    (beta1, beta2), steps = group["betas"], float(state["step"])
    mean = state["exp_avg"][rows].lerp_(values, 1 - beta1)
    square = state["exp_avg_sq"][rows].mul_(beta2).addcmul_(values, values, value=1 - beta2)
    state["exp_avg"][rows], state["exp_avg_sq"][rows] = mean, square
    root = (square / (1 - beta2**steps)).sqrt_().add_(group["eps"])
    parameter[rows] -= group["lr"] / (1 - beta1**steps) * mean / root


def _make_dense(optimizer: Optimizer) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()


@torch.no_grad()
def clip_gradients(parameters: Iterable[nn.Parameter], longest: float) -> Tensor:
    """The 2-norm of all gradients together, which are made shorter if it is more than `longest`."""
    found = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()  # a row may have come twice
        if parameter.grad is not None:
            found.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
    norm = nn.utils.get_total_norm(found)
    for gradient in found:
        gradient.mul_((longest / (norm + 1e-6)).clamp(max=1.0))
    return norm


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The state as `KEY/PARAMETER` → tensor."""
    return {
        f"{key}/{name}": value.detach().clone()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """The opposite of `optimizer_tensors`. Copies, because mapped files are not aligned as torch aligns."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for path, value in tensors.items():
            key, name = path.split("/", 1)
            optimizer.state[parameters[name]][key] = value.clone()
