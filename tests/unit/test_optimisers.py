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
from antiphon.training.optimisers import build_optimizer, clip_gradients, optimizer_tensors, restore_optimizer

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
    assert isinstance(optimizer, KINDS[name])
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


def table(*, sparse: bool) -> nn.Embedding:
    made = nn.Embedding(5, 3, sparse=sparse)
    fill(made)
    return made


def look_up(model: nn.Embedding, optimizer: torch.optim.Optimizer, batches: list[list[int]]) -> None:
    for rows in batches:
        optimizer.zero_grad()
        values = model(torch.tensor(rows)) * torch.arange(1.0, len(rows) + 1).unsqueeze(1)
        torch.autograd.backward(values.square().sum())
        optimizer.step()


@every_optimizer
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_rows_that_every_batch_touches_learn_as_in_a_dense_table(name: str, decay: float) -> None:
    config = CONFIGS[name].model_copy(update={"weight_decay": decay})
    ours, theirs = table(sparse=True), table(sparse=False)
    for model in (ours, theirs):
        look_up(model, build_optimizer(config, model), [[0, 1, 2, 3, 4, 1], [4, 3, 2, 1, 0, 0]])
    torch.testing.assert_close(ours.weight, theirs.weight)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_rows_that_a_batch_does_not_touch_stay_as_they_are(name: str) -> None:
    model = table(sparse=True)
    optimizer = build_optimizer(CONFIGS[name].model_copy(update={"weight_decay": 0.0}), model)
    look_up(model, optimizer, [[0, 1, 2, 3, 4]])
    before = model.weight.detach().clone()
    look_up(model, optimizer, [[1, 3, 1]])
    changed = (model.weight != before).any(dim=1)
    assert changed.tolist() == [False, True, False, True, False]


@pytest.mark.parametrize("longest", [0.5, 1000.0])
def test_gradients_are_clipped_by_the_norm_of_all(longest: float) -> None:
    """A row that comes twice counts with its sum, as in a dense table."""
    found = []
    for sparse in (True, False):
        model = nn.ModuleList([table(sparse=sparse), network()])
        looked = model[0](torch.tensor([1, 3, 1]))
        torch.autograd.backward(model[1](looked).square().sum())
        norm = clip_gradients(model.parameters(), longest)
        found.append(
            [norm, *(parameter.grad.to_dense() for parameter in model.parameters() if parameter.grad is not None)]
        )
    total = torch.stack([gradient.norm() for gradient in found[1][1:]]).norm()
    assert float(total) == pytest.approx(min(float(found[1][0]), longest), rel=1e-5)
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right)
