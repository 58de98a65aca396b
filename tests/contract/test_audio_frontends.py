"""The fronts of sounds and vectors: padding changes nothing, alone == in a batch, gradients, shapes, names."""
# B rows, S steps, D width of a vector, E size

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import close, fill
from torch import Tensor

from antiphon.models.frontends.audio_frontend import LinearFrontEnd, SubsampledFrontEnd
from antiphon.sequence import Sequence

D, E = 3, 6
LENGTHS = [9, 8, 7, 6, 5, 4, 3, 2, 1]
FrontEnd = SubsampledFrontEnd | LinearFrontEnd


def subsampled(kernel: int = 3, dropout: float = 0.0, channels: int = 4, seconds: float | None = None) -> FrontEnd:
    return filled(
        SubsampledFrontEnd(inputs=D, size=E, channels=channels, kernel=kernel, dropout=dropout, seconds=seconds)
    )


def linear(stack: int = 1, dropout: float = 0.0, seconds: float | None = None) -> FrontEnd:
    return filled(LinearFrontEnd(inputs=D, size=E, stack=stack, dropout=dropout, seconds=seconds))


def filled(front: FrontEnd) -> FrontEnd:
    fill(front.double())
    return front.eval()


FRONT_ENDS = {
    "subsampled, kernel 3": lambda: subsampled(kernel=3),
    "subsampled, kernel 5": lambda: subsampled(kernel=5),
    "linear": linear,
    "linear, stacked by 2": lambda: linear(stack=2),
    "linear, stacked by 4": lambda: linear(stack=4),
}
every_front = pytest.mark.parametrize("name", FRONT_ENDS)


def rows() -> list[Tensor]:
    return [
        torch.cos(torch.arange(length * D, dtype=torch.float64) * (0.7 + length)).reshape(-1, D) for length in LENGTHS
    ]


def batch(vectors: list[Tensor], longest: int, padding: float) -> Sequence:
    values = torch.full((len(vectors), longest, D), padding, dtype=torch.float64)
    mask = torch.zeros(len(vectors), longest, dtype=torch.bool)
    for number, row in enumerate(vectors):
        values[number, : len(row)] = row
        mask[number, : len(row)] = True
    return Sequence(values, mask)


@every_front
@torch.no_grad()
def test_padding_changes_nothing_and_alone_is_as_in_a_batch(name: str) -> None:
    front = FRONT_ENDS[name]()
    for longest, padding in ((9, 0.0), (9, 77.0), (14, -5.0), (13, math.nan)):
        together = front(batch(rows(), longest, padding))
        assert together.mask.sum(1).tolist() == [math.ceil(length / front.factor) for length in LENGTHS]
        assert together.values.shape == (len(LENGTHS), math.ceil(longest / front.factor), E)
        assert together.mask.shape == together.values.shape[:2]
        for number, row in enumerate(rows()):
            alone = front(batch([row], len(row), 0.0))
            assert bool(alone.mask.all())
            close(together.values[number][together.mask[number]], alone.values[0])


@every_front
def test_gradients_reach_every_parameter_and_no_padding(name: str) -> None:
    front = FRONT_ENDS[name]()
    source = batch(rows(), 12, 3.0)
    source.values.requires_grad_()
    found = front(source)
    found.values[found.mask].square().sum().backward()
    assert [key for key, weight in front.named_parameters() if weight.grad is None or not bool(weight.grad.any())] == []
    assert source.values.grad is not None
    assert not bool(source.values.grad[~source.mask].any())
    assert bool(source.values.grad[source.mask].any(1).all())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from(list(FRONT_ENDS)), st.integers(1, 30))
def test_there_is_a_name_for_each_vector(name: str, length: int) -> None:
    front = FRONT_ENDS[name]()
    found = front(Sequence(torch.zeros(1, length, D, dtype=torch.float64), torch.ones(1, length, dtype=torch.bool)))
    names = front.names(length)
    assert len(names) == len(set(names)) == found.values.size(1)
    assert names == [str(step) for step in range(1, length + 1, front.factor)]
    assert front.grid(length) is None


def test_how_many_steps_a_vector_stands_for() -> None:
    assert [subsampled().factor, linear().factor, linear(stack=3).factor] == [4, 1, 3]


def test_names_of_a_sound_are_seconds() -> None:
    assert subsampled(seconds=0.01).names(9) == ["0.00", "0.04", "0.08"]
    assert linear(seconds=0.01).names(3) == ["0.00", "0.01", "0.02"]
    assert linear(stack=2, seconds=0.0125).names(5) == ["0.00", "0.025", "0.05"]


@torch.no_grad()
def test_a_subsampled_vector_stands_at_every_fourth_step() -> None:
    """With a kernel of 3, vector j hears the steps 4 j - 3 to 4 j + 3."""
    front = subsampled(kernel=3)
    mask = torch.ones(1, 20, dtype=torch.bool)
    plain = front(Sequence(torch.zeros(1, 20, D, dtype=torch.float64), mask)).values
    heard: dict[int, list[int]] = {}
    for step in range(20):
        values = torch.zeros(1, 20, D, dtype=torch.float64)
        values[0, step] = 1.0
        changed = (front(Sequence(values, mask)).values != plain).any(2)[0]
        for vector in changed.nonzero().flatten().tolist():
            heard.setdefault(vector, []).append(step)
    assert heard == {j: list(range(max(0, 4 * j - 3), 4 * j + 4)) for j in range(5)}


@torch.no_grad()
def test_linear_is_the_formula() -> None:
    """Seven vectors, stacked by three: the last group has two zeros behind it."""
    front = linear(stack=3)
    x = rows()[2]
    groups = torch.cat([x, torch.zeros(2, D, dtype=torch.float64)]).reshape(3, 3 * D)
    expected = torch.stack([front.W.weight @ group + front.W.bias for group in groups])
    close(front(batch([x], 7, 0.0)).values[0], expected)


@pytest.mark.parametrize("inputs", [2, 13, 80])
@torch.no_grad()
def test_fresh_vectors_are_about_as_long_as_those_of_tokens(inputs: int) -> None:
    """Length 1, from values of variance 1."""
    torch.manual_seed(1)
    source = Sequence(torch.randn(4, 60, inputs), torch.ones(4, 60, dtype=torch.bool))
    for front in (
        LinearFrontEnd(inputs=inputs, size=64, stack=2, dropout=0.1),
        SubsampledFrontEnd(inputs=inputs, size=64, channels=64, kernel=5, dropout=0.1),
    ):
        length = front.eval()(source).values.norm(dim=2).square().mean().sqrt()
        assert 0.5 < float(length) < 2.0


@pytest.mark.parametrize("front", [lambda rate: subsampled(dropout=rate), lambda rate: linear(dropout=rate)])
def test_dropout_is_for_training(front: object) -> None:
    assert callable(front)
    module, plain, source = front(0.5), front(0.0), batch(rows(), 9, 0.0)
    close(module(source).values, plain(source).values)
    module.train()
    torch.manual_seed(1)
    assert bool((module(source).values == 0).any())
    assert bool((plain.train()(source).values != 0).all())


def test_dropout_is_in_every_layer() -> None:
    """The values that dropout keeps in one layer would be the same, scaled by 1 / (1 - p)."""
    for front, layers in ((subsampled, 2), (linear, 1)):
        source = batch(rows(), 9, 0.0)
        torch.manual_seed(1)
        found, plain = front(dropout=0.5).train()(source).values, front()(source).values
        kept = found != 0
        assert torch.allclose(found[kept], 2 * plain[kept]) == (layers == 1)


def test_channels_and_kernel_are_the_shape() -> None:
    shapes = [tuple(layer.weight.shape) for layer in subsampled(channels=7, kernel=5).convolutions]  # type: ignore[union-attr]
    assert shapes == [(14, D, 5), (14, 7, 5)]
    with pytest.raises(ValueError, match="a kernel of 4 has no middle"):
        subsampled(kernel=4)
