"""Dropout from random bytes: its statistics, its gradient, its random numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from antiphon.models.layers.dropout import Dropout, dropout, relu_and_dropout

SHAPE = (400, 501)  # not a multiple of eight values
SHARES = [0.1, 0.25, 0.5, 0.9]


def drop(values: Tensor, p: float, seed: int = 1) -> Tensor:
    torch.manual_seed(seed)
    return dropout(values, p, training=True)


@pytest.mark.parametrize("p", SHARES)
def test_the_share_of_dropped_values_and_the_mean(p: float) -> None:
    dropped = drop(torch.ones(SHAPE), p)
    rounded = round(256 * p) / 256
    spread = (rounded * (1 - rounded) / dropped.numel()) ** 0.5
    assert float((dropped == 0).double().mean()) == pytest.approx(rounded, abs=5 * spread)
    kept = dropped[dropped != 0]
    assert torch.equal(kept, torch.full_like(kept, 1 / (1 - rounded)))
    assert float(dropped.double().mean()) == pytest.approx(1.0, abs=5 * spread / (1 - rounded))


def test_values_are_dropped_independently() -> None:
    """Neighbours share the bits of one random number, and rows follow each other in one stream of them."""
    dropped = (drop(torch.ones(512, 512), 0.25) == 0).double() - 0.25
    spread = 0.25 * 0.75 / 512
    for shift in [(0, 1), (0, 2), (0, 8), (1, 0), (8, 0)]:
        correlation = (dropped * dropped.roll(shift, dims=(0, 1))).mean()
        assert abs(float(correlation)) < 5 * spread


def test_the_gradient_passes_where_the_value_has() -> None:
    values = torch.linspace(-2, 2, 1000).requires_grad_()
    dropped = drop(values, 0.25)
    (gradient,) = torch.autograd.grad(dropped.sum(), values)
    torch.testing.assert_close(gradient * values, dropped)
    assert bool((gradient == 0).any())


def test_relu_and_dropout_in_one_is_one_after_the_other() -> None:
    values, weight = torch.linspace(-2, 2, 1001), torch.sin(torch.arange(1001.0))
    results = []
    for together in (True, False):
        leaf = values.clone().requires_grad_()
        torch.manual_seed(4)
        inner = leaf * 1.0
        outer = relu_and_dropout(inner, 0.25, True) if together else dropout(torch.relu(inner), 0.25, True)
        results.append((outer.detach(), *torch.autograd.grad((outer * weight).sum(), leaf)))
    for mine, plain in zip(*results, strict=True):
        torch.testing.assert_close(mine, plain)


def test_torchs_seed_decides() -> None:
    values = torch.ones(SHAPE)
    assert torch.equal(drop(values, 0.5, seed=3), drop(values, 0.5, seed=3))
    assert not torch.equal(drop(values, 0.5, seed=3), drop(values, 0.5, seed=4))
    torch.manual_seed(3)
    first, second = (dropout(values, 0.5, training=True) for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("p", [0.0005, 0.9995])
def test_a_share_beyond_the_resolution_of_a_byte_is_torchs(p: float) -> None:
    values = torch.ones(SHAPE)
    mine = drop(values, p)
    torch.manual_seed(1)
    assert torch.equal(mine, nn.functional.dropout(values, p))


def test_nothing_is_dropped_in_evaluation_or_with_0() -> None:
    values = torch.ones(SHAPE)
    assert Dropout(0.5).eval()(values) is values
    assert Dropout(0.0).train()(values) is values
    assert bool((Dropout(0.5).train()(values) == 0).any())
