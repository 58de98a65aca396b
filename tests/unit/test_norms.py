"""Norms: batch norm counts real positions only; pre and post order."""
# B rows, T steps, H size

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import close, fill
from torch import Tensor, nn

from antiphon.models.layers.blocks import AddAndNorm, LayerNorm, MaskedBatchNorm

B, T, H = 3, 4, 5
MASK = torch.tensor([[True] * 4, [True, True, False, False], [True, False, False, False]])
STATES = torch.cos(torch.arange(B * T * H, dtype=torch.float64) * 0.7).reshape(B, T, H)


def batch_norm() -> MaskedBatchNorm:
    norm = MaskedBatchNorm(H).double()
    with torch.no_grad():
        norm.weight.copy_(torch.arange(1, H + 1) / 3)
        norm.bias.copy_(torch.arange(H) / 7)
    return norm


def counted(channel: int) -> tuple[float, float, int]:
    """Mean, variance and number of one value at real positions, in a loop."""
    real = [float(STATES[b, t, channel]) for b in range(B) for t in range(T) if MASK[b, t]]
    mean = sum(real) / len(real)
    return mean, sum((value - mean) ** 2 for value in real) / len(real), len(real)


def written_out(norm: MaskedBatchNorm, channel: int, mean: float, var: float) -> Tensor:
    scaled = (STATES[..., channel] - mean) / math.sqrt(var + 1e-5)
    return scaled * norm.weight[channel] + norm.bias[channel]


def test_batch_norm_in_training_counts_real_positions() -> None:
    norm = batch_norm().train()
    found = norm(STATES, MASK)
    for channel in range(H):
        mean, var, number = counted(channel)
        assert number == 7
        close(found[..., channel][MASK], written_out(norm, channel, mean, var)[MASK])
        assert float(norm.running_mean[channel]) == pytest.approx(0.1 * mean)
        assert float(norm.running_var[channel]) == pytest.approx(0.9 + 0.1 * var * 7 / 6)


def test_batch_norm_in_use_takes_the_moving_averages() -> None:
    norm = batch_norm().train()
    norm(STATES, MASK)
    norm.eval()
    before = norm.running_mean.clone()
    found = norm(2 * STATES, MASK)
    assert torch.equal(norm.running_mean, before)
    for channel in range(H):
        mean, var = float(norm.running_mean[channel]), float(norm.running_var[channel])
        expected = (2 * STATES[..., channel] - mean) / math.sqrt(var + 1e-5)
        close(found[..., channel], expected * norm.weight[channel] + norm.bias[channel])


def test_padding_changes_no_statistics() -> None:
    wild = STATES.masked_fill(~MASK.unsqueeze(-1), 1e6)
    tame, other = batch_norm().train(), batch_norm().train()
    close(tame(STATES, MASK)[MASK], other(wild, MASK)[MASK])
    close(tame.running_mean, other.running_mean)
    close(tame.running_var, other.running_var)


def test_batch_norm_is_torchs_over_the_real_positions() -> None:
    ours, theirs = batch_norm().train(), nn.BatchNorm1d(H).double().train()
    theirs.load_state_dict(ours.state_dict(), strict=False)
    for turn in range(3):
        states = STATES * (turn + 1)
        close(ours(states, MASK)[MASK], theirs(states[MASK]))
    close(ours.running_mean, theirs.running_mean)
    close(ours.running_var, theirs.running_var)
    close(ours.eval()(STATES, MASK)[MASK], theirs.eval()(STATES[MASK]))


def test_a_single_position_is_no_accident() -> None:
    """torch refuses it; here it has no spread, so the bias is left."""
    norm = batch_norm().train()
    close(norm(STATES[:1, :1], MASK[:1, :1])[0, 0], norm.bias)
    assert bool(norm.running_var.isfinite().all())


def test_moving_averages_are_saved() -> None:
    assert set(MaskedBatchNorm(H).state_dict()) == {"weight", "bias", "running_mean", "running_var"}


def test_layer_norm_is_torchs_whatever_the_mask() -> None:
    ours, theirs = LayerNorm(H).double(), nn.LayerNorm(H).double()
    fill(ours)
    theirs.load_state_dict(ours.state_dict())
    close(ours(STATES, MASK), theirs(STATES))


@pytest.mark.parametrize("kind", [LayerNorm, MaskedBatchNorm])
def test_pre_and_post(kind: type[LayerNorm] | type[MaskedBatchNorm]) -> None:
    def f(states: Tensor) -> Tensor:
        return states.square() - 1.0

    for order in ("pre", "post"):
        block = AddAndNorm(parts=("one", "other"), norm=kind, size=H, order=order, dropout=0.0).double().eval()
        fill(block)
        norm = block["other"]
        found = block.after("other", STATES, f(block.before("other", STATES, MASK)), MASK)
        expected = STATES + f(norm(STATES, MASK)) if order == "pre" else norm(STATES + f(STATES), MASK)
        close(found, expected)
        assert not torch.allclose(found, block.after("one", STATES, f(block.before("one", STATES, MASK)), MASK))


def test_dropout_falls_on_what_is_added() -> None:
    block = AddAndNorm(parts=("one",), norm=LayerNorm, size=H, order="pre", dropout=1.0).double()
    close(block.after("one", STATES, STATES, MASK), STATES)
    close(block.eval().after("one", STATES, STATES, MASK), 2 * STATES)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_batch_that_overflowed_leaves_no_trace(bad: float) -> None:
    norm, states = batch_norm().train(), STATES.clone()
    states[0, 1, 2] = bad
    norm(states, MASK)
    assert not norm.running_mean.any()
    assert torch.equal(norm.running_var, torch.ones(H).double())


def test_what_overflowed_in_padding_is_not_counted() -> None:
    norm, states = batch_norm().train(), STATES.clone()
    states[2, 3] = math.inf
    close(norm(states, MASK)[MASK], batch_norm().train()(STATES, MASK)[MASK])
