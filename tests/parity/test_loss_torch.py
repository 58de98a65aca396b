"""The loss against torch's cross entropy."""

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import close
from torch.nn import functional

from antiphon.data.tokenizers import PAD
from antiphon.sequence import Sequence
from antiphon.training import blockwise_loss
from antiphon.training.step import cross_entropy, output_loss

B, T, V, D = 3, 5, 7, 4
OUTPUTS = Sequence.of_ids([[4, 5, 6, 4, 2], [3, 2], [6, 6, 2]], PAD)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_total_is_torchs_sum_over_real_positions(smoothing: float) -> None:
    logits = torch.sin(torch.arange(B * T * V, dtype=torch.float64)).reshape(B, T, V).mul(3).requires_grad_()
    twin = logits.detach().clone().requires_grad_()
    loss = cross_entropy(logits, OUTPUTS, smoothing)
    targets = OUTPUTS.values.masked_fill(~OUTPUTS.mask, -100)
    flat, wanted = twin.reshape(-1, V), targets.reshape(-1)
    expected = functional.cross_entropy(flat, wanted, label_smoothing=smoothing, reduction="sum", ignore_index=-100)
    close(loss.total, expected)
    close(loss.plain, functional.cross_entropy(flat, wanted, reduction="sum", ignore_index=-100))
    assert not loss.plain.requires_grad
    assert loss.count == 10
    loss.backward(scale=0.25)
    (expected * 0.25).backward()
    assert logits.grad is not None
    assert twin.grad is not None
    close(logits.grad, twin.grad)
    assert not logits.grad[~OUTPUTS.mask].any()


def test_padding_adds_nothing_whatever_its_logits() -> None:
    logits = torch.sin(torch.arange(B * T * V, dtype=torch.float64)).reshape(B, T, V)
    wild = logits.clone()
    wild[~OUTPUTS.mask] = torch.tensor(math.inf)
    close(cross_entropy(wild, OUTPUTS, 0.1).total, cross_entropy(logits, OUTPUTS, 0.1).total)


def test_numbers_on_paper() -> None:
    """p = (1/2, 1/4, 1/4); -log p(0) = log 2; smoothed by 0.3: 0.7 log 2 + 0.1 (log 2 + 2 log 4)."""
    logits = torch.tensor([[[2.0, 1.0, 1.0]]], dtype=torch.float64) * math.log(2)
    target = Sequence(torch.tensor([[0]]), torch.tensor([[True]]))
    assert float(cross_entropy(logits, target).total) == pytest.approx(math.log(2))
    assert float(cross_entropy(logits, target, 0.3).total) == pytest.approx(1.2 * math.log(2))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("block", [1, 3 * V, 2**21])
def test_the_loss_in_blocks_is_the_loss_of_the_logits(
    smoothing: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blockwise_loss, "BLOCK_LOGITS", block)
    layer, outputs = torch.nn.Linear(D, V).double(), torch.sin(torch.arange(B * T * D).double()).reshape(B, T, D)
    torch.nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(1))
    mine, theirs = outputs.clone().requires_grad_(), outputs.clone().requires_grad_()
    loss = output_loss(layer, mine, OUTPUTS, smoothing)
    expected = cross_entropy(layer(theirs), OUTPUTS, smoothing)
    close(loss.total, expected.total)
    close(loss.plain, expected.plain)
    assert loss.count == expected.count
    assert not loss.plain.requires_grad
    for left, right in zip(
        torch.autograd.grad(loss.total * 0.25, [mine, layer.weight, layer.bias]),
        torch.autograd.grad(expected.total * 0.25, [theirs, layer.weight, layer.bias]),
        strict=True,
    ):
        close(left, right)


def test_the_loss_in_blocks_bears_large_logits() -> None:
    """exp(800) is infinite; the most probable token has log p = 0, the other -800."""
    weight, outputs = torch.tensor([[800.0], [0.0]]), torch.ones(2, 1, requires_grad=True)
    total, plain = blockwise_loss.blockwise_cross_entropy(outputs, weight, torch.zeros(2), torch.tensor([0, 1]))
    assert float(total.detach()) == float(plain) == 800.0
    assert torch.isfinite(torch.autograd.grad(total, outputs)[0]).all()


def test_the_loss_in_blocks_is_exact_for_answers_that_are_nearly_certain() -> None:
    """-log p is e^-12 in each of 4,000 rows with logits of about 500: a difference of two large sums would be noise."""
    rows, weight = torch.ones(4000, 1), torch.tensor([[500.0], [488.0]])
    _, plain = blockwise_loss.blockwise_cross_entropy(rows, weight, torch.zeros(2), torch.zeros(4000, dtype=torch.long))
    assert float(plain) == pytest.approx(4000 * math.log1p(math.exp(-12)), rel=0.02)
