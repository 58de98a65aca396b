"""Guided attention: what looking away from the diagonal costs."""
# B batch, T target steps, S source steps

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from antiphon.training.step import guided_attention_loss

WIDTH = 0.3


def mask(*lengths: int, longest: int) -> Tensor:
    return torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)


def test_the_diagonal_costs_nothing() -> None:
    weights = torch.eye(5).unsqueeze(0)
    assert guided_attention_loss(weights, mask(5, longest=5), mask(5, longest=5), WIDTH) == 0.0


def test_the_cost_written_out() -> None:
    """Two steps over three states: step 0 looks at the middle and the end, step 1 at the beginning."""
    weights = torch.tensor([[[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]]])

    def cost(away: float) -> float:
        return 1.0 - math.exp(-(away**2) / (2 * WIDTH**2))

    expected = 0.5 * cost(0.5) + 0.3 * cost(1.0) + 1.0 * cost(1.0)
    assert guided_attention_loss(weights, mask(2, longest=2), mask(3, longest=3), WIDTH).item() == pytest.approx(
        expected, rel=1e-6
    )


def test_padding_costs_nothing_and_does_not_move_the_diagonal() -> None:
    torch.manual_seed(0)
    weights = torch.randn(2, 4, 6).masked_fill(~mask(6, 3, longest=6).unsqueeze(1), -math.inf).softmax(dim=-1)
    both = guided_attention_loss(weights, mask(4, 2, longest=4), mask(6, 3, longest=6), WIDTH)
    first = guided_attention_loss(weights[:1], mask(4, longest=4), mask(6, longest=6), WIDTH)
    second = guided_attention_loss(weights[1:, :2, :3], mask(2, longest=2), mask(3, longest=3), WIDTH)
    assert both.item() == pytest.approx((first + second).item(), rel=1e-6)


def test_one_state_or_one_step_is_all_diagonal_or_its_beginning() -> None:
    assert guided_attention_loss(torch.ones(1, 1, 1), mask(1, longest=1), mask(1, longest=1), WIDTH) == 0.0
