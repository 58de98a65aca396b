"""Optimisers by name, and their state out and in again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import fill
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW

from antiphon.config.schema import TrainingConfig
from antiphon.training.optimisers import build_optimizer, optimizer_tensors, restore_optimizer

CONFIGS = {
    "adam": TrainingConfig(optimizer="adam", learning_rate=0.05, weight_decay=0.1),
    "adamw": TrainingConfig(optimizer="adamw", learning_rate=0.05, weight_decay=0.1),
    "sgd": TrainingConfig(optimizer="sgd", learning_rate=0.05, momentum=0.9, weight_decay=0.1),
    "plain sgd": TrainingConfig(optimizer="sgd", learning_rate=0.05),
}
KINDS = {"adam": Adam, "adamw": AdamW, "sgd": SGD, "plain sgd": SGD}
every_optimizer = pytest.mark.parametrize("name", list(CONFIGS))


def network() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    fill(model)
    return model


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    inputs = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.7, -1.0]])
    for _ in range(steps):
        optimizer.zero_grad()
        torch.autograd.backward(model(inputs).square().sum())
        optimizer.step()


def weights(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


@every_optimizer
def test_a_name_is_torchs_optimiser(name: str) -> None:
    """The same three steps as torch's own class with the same numbers."""
    config, ours, theirs = CONFIGS[name], network(), network()
    optimizer = build_optimizer(config, ours)
    assert type(optimizer) is KINDS[name]
    options = {"lr": 0.05, "weight_decay": config.weight_decay}
    twin = KINDS[name](theirs.parameters(), **options, **({"momentum": config.momentum} if "sgd" in name else {}))
    learn(ours, optimizer, 3)
    learn(theirs, twin, 3)
    for left, right in zip(weights(ours), weights(theirs), strict=True):
        torch.testing.assert_close(left, right)


@every_optimizer
def test_state_out_and_in_goes_on_byte_for_byte(name: str, tmp_path: Path) -> None:
    straight = network()
    optimizer = build_optimizer(CONFIGS[name], straight)
    learn(straight, optimizer, 3)
    save_file(optimizer_tensors(optimizer, straight), tmp_path / "optimizer.safetensors")
    resumed = network()
    resumed.load_state_dict(straight.state_dict())
    other = build_optimizer(CONFIGS[name], resumed)
    restore_optimizer(other, resumed, load_file(tmp_path / "optimizer.safetensors"))
    learn(straight, optimizer, 3)
    learn(resumed, other, 3)
    for left, right in zip(weights(straight), weights(resumed), strict=True):
        assert torch.equal(left, right)


def test_state_is_named_and_a_copy() -> None:
    model = network()
    optimizer = build_optimizer(CONFIGS["adam"], model)
    assert optimizer_tensors(optimizer, model) == {}
    learn(model, optimizer, 1)
    tensors = optimizer_tensors(optimizer, model)
    keys, names = ("step", "exp_avg", "exp_avg_sq"), ("0.weight", "0.bias", "2.weight", "2.bias")
    assert set(tensors) == {f"{key}/{name}" for key in keys for name in names}
    before = tensors["exp_avg/0.weight"].clone()
    learn(model, optimizer, 1)
    assert torch.equal(tensors["exp_avg/0.weight"], before)


def test_frozen_parameters_are_left_alone() -> None:
    model = network()
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    learn(model, build_optimizer(CONFIGS["adamw"], model), 2)
    assert torch.equal(model[0].weight, before)
