"""Optimisers by name, and their state out and in again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import fill
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW

from antiphon.config.schema import AdamConfig, SGDConfig, TrainingConfig
from antiphon.training.optimizers import Optimizer, build_optimizer

CONFIGS = {
    "adam": TrainingConfig(optimizer=AdamConfig(kind="adam", weight_decay=0.1)),
    "adamw": TrainingConfig(optimizer=AdamConfig(weight_decay=0.1)),
    "sgd": TrainingConfig(optimizer=SGDConfig(momentum=0.9, weight_decay=0.1)),
    "plain sgd": TrainingConfig(optimizer=SGDConfig()),
}
RATE = 0.05
KINDS = {"adam": Adam, "adamw": AdamW, "sgd": SGD, "plain sgd": SGD}
every_optimiser = pytest.mark.parametrize("name", list(CONFIGS))


def network() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    fill(model)
    return model


def learn(model: nn.Module, optimizer: Optimizer | torch.optim.Optimizer, steps: int) -> None:
    inputs = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.7, -1.0]])
    for _ in range(steps):
        model.zero_grad()
        torch.autograd.backward(model(inputs).square().sum())
        optimizer.step(RATE) if isinstance(optimizer, Optimizer) else optimizer.step()


def weights(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


@every_optimiser
def test_a_name_is_torchs_optimiser(name: str) -> None:
    """The same three steps, byte for byte, as torch's own class with the same numbers."""
    config, ours, theirs = CONFIGS[name], network(), network()
    options = {"lr": RATE, "weight_decay": config.optimizer.weight_decay, "fused": True}
    twin = KINDS[name](
        theirs.parameters(), **options, **({"momentum": config.optimizer.momentum} if "sgd" in name else {})
    )
    learn(ours, build_optimizer(config, ours), 3)
    learn(theirs, twin, 3)
    for left, right in zip(weights(ours), weights(theirs), strict=True):
        assert torch.equal(left, right)


@every_optimiser
def test_state_out_and_in_goes_on_byte_for_byte(name: str, tmp_path: Path) -> None:
    straight = network()
    optimizer = build_optimizer(CONFIGS[name], straight)
    learn(straight, optimizer, 3)
    save_file(optimizer.state_dict(), tmp_path / "optimizer.safetensors")
    resumed = network()
    resumed.load_state_dict(straight.state_dict())
    other = build_optimizer(CONFIGS[name], resumed)
    other.load_state_dict(load_file(tmp_path / "optimizer.safetensors"))
    learn(straight, optimizer, 3)
    learn(resumed, other, 3)
    for left, right in zip(weights(straight), weights(resumed), strict=True):
        assert torch.equal(left, right)


def test_state_is_named_and_a_copy() -> None:
    model = network()
    optimizer = build_optimizer(CONFIGS["adam"], model)
    assert optimizer.state_dict() == {}
    learn(model, optimizer, 1)
    tensors = optimizer.state_dict()
    keys, names = ("step", "exp_avg", "exp_avg_sq"), ("0.weight", "0.bias", "2.weight", "2.bias")
    assert set(tensors) == {f"{key}/{name}" for key in keys for name in names}
    before = tensors["exp_avg/0.weight"].clone()
    learn(model, optimizer, 1)
    assert torch.equal(tensors["exp_avg/0.weight"], before)


@every_optimiser
def test_what_has_no_gradient_stays(name: str) -> None:
    """Frozen, or not part of this loss: whatever the decay."""
    model = network()
    model[0].weight.requires_grad_(False)
    spare = nn.Parameter(torch.ones(3))
    model.register_parameter("spare", spare)
    before = model[0].weight.clone()
    learn(model, build_optimizer(CONFIGS[name], model), 2)
    assert torch.equal(model[0].weight, before)
    assert torch.equal(spare, torch.ones(3))


def test_an_update_does_without_torchs_compiler() -> None:
    """It takes seconds to import, and the first update of every training would wait for it."""
    code = """
import sys
import torch
from torch.nn.utils import clip_grad_norm_
from antiphon.training.optimizers import SGD, Adam
for optimiser in (Adam, SGD):
    model = torch.nn.Linear(2, 2)
    model(torch.ones(1, 2)).sum().backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimiser(model).step(0.1)
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
