"""Optimisers, and their state as named tensors (so that it can be saved without pickle)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from antiphon.config.schema import TrainingConfig

__all__ = ["build_optimizer", "optimizer_tensors", "restore_optimizer"]


def build_optimizer(config: TrainingConfig, model: nn.Module) -> Optimizer:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if config.optimizer == "sgd":
        return SGD(
            parameters, lr=config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay, fused=True
        )
    kind = Adam if config.optimizer == "adam" else AdamW
    return kind(parameters, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)


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
