"""Positions: the sinusoid at d = 512 in numbers, tables that grow, tables that end."""

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import close
from torch import Tensor

from antiphon.errors import UserError
from antiphon.models.layers.embedding import embedding_table
from antiphon.models.layers.positions import LearntPositions, SinusoidalPositions

# t, 2i, sin(t / 10000^{2i/512}), cos(..), to nine places
SINUSOID = [
    (0, 0, 0.0, 1.0),
    (1, 0, 0.841470985, 0.540302306),
    (3, 0, 0.141120008, -0.989992497),
    (10, 128, 0.841470985, 0.540302306),  # 10000^(1/4) = 10
    (10, 256, 0.099833417, 0.995004165),  # 10000^(1/2) = 100
    (100, 400, 0.074919158, 0.997189611),
    (1000, 510, 0.103477730, 0.994631771),
]


def added(positions: SinusoidalPositions | LearntPositions, length: int, offset: int | Tensor = 0) -> Tensor:
    """p alone [R, T, d]: what is added to vectors of nothing."""
    rows = offset.size(0) if isinstance(offset, Tensor) else 1
    found: Tensor = positions(torch.zeros(rows, length, positions.size, dtype=torch.float64), offset)
    return found


@pytest.mark.parametrize(("place", "even", "sine", "cosine"), SINUSOID)
def test_the_sinusoid_at_512(place: int, even: int, sine: float, cosine: float) -> None:
    found = added(SinusoidalPositions(size=512), place + 1)[0, place, even : even + 2]
    assert found.tolist() == pytest.approx([sine, cosine], abs=1e-9)


def test_every_sine_is_the_formula() -> None:
    found = added(SinusoidalPositions(size=6), 40)[0]
    for t in range(40):
        for i in range(3):
            angle = t / 10000 ** (2 * i / 6)
            assert found[t, 2 * i : 2 * i + 2].tolist() == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-12)


@pytest.mark.parametrize("positions", [SinusoidalPositions(size=4), LearntPositions(longest=9, size=4).double()])
def test_vectors_are_scaled_then_positions_added(positions: SinusoidalPositions | LearntPositions) -> None:
    vectors = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)
    close(positions(vectors), 2.0 * vectors + added(positions, 3))


@pytest.mark.parametrize("positions", [SinusoidalPositions(size=4), LearntPositions(longest=9, size=4).double()])
def test_offsets(positions: SinusoidalPositions | LearntPositions) -> None:
    whole = added(positions, 9)[0]
    close(added(positions, 3, 5)[0], whole[5:8])
    each = added(positions, 3, torch.tensor([0, 6, 2]))
    close(each, torch.stack([whole[0:3], whole[6:9], whole[2:5]]))


def test_the_sinusoid_grows_and_is_not_saved() -> None:
    positions = SinusoidalPositions(size=4)
    short = added(positions, 3)
    long = added(positions, 1000)
    close(long[:, :3], short)
    assert positions.state_dict() == {}
    assert list(positions.parameters()) == []


def test_a_table_made_for_floats_does_not_spoil_doubles() -> None:
    positions = SinusoidalPositions(size=512)
    positions(torch.zeros(1, 2000, 512))
    positions.double()
    found = added(positions, 2000)[0, 1999, 0]
    assert float(found) == pytest.approx(math.sin(1999), abs=1e-12)
    assert positions(torch.zeros(1, 3, 512)).dtype == torch.float32


def test_a_table_made_while_searching_serves_training() -> None:
    positions, vectors = SinusoidalPositions(size=4), torch.ones(2, 3, 4, requires_grad=True)
    with torch.inference_mode():
        positions(torch.zeros(2, 3, 4))
    assert not positions.cache.is_inference()
    positions(vectors).square().sum().backward()
    assert vectors.grad is not None
    (positions.cache * vectors).sum().backward()  # what is saved for this cannot be an inference tensor


def test_a_table_does_not_grow_because_its_type_changes() -> None:
    positions = SinusoidalPositions(size=4)
    for _ in range(5):
        for type_ in (torch.float32, torch.float64):
            assert positions(torch.zeros(1, 7, 4, dtype=type_)).dtype == type_
            assert len(positions.cache) == 7
    positions(torch.zeros(1, 8, 4, dtype=torch.float64))
    assert len(positions.cache) == 14, "a longer sequence makes room for more"


def test_an_odd_size_has_no_pairs() -> None:
    with pytest.raises(ValueError, match="7 is odd"):
        SinusoidalPositions(size=7)


@pytest.mark.parametrize(("length", "offset"), [(10, 0), (1, 9), (4, torch.tensor([0, 6]))])
def test_a_learnt_table_that_is_too_short_is_said(length: int, offset: int | Tensor) -> None:
    positions = LearntPositions(longest=9, size=4)
    with pytest.raises(UserError) as caught:
        added(positions.double(), length, offset)
    assert caught.value.problems == [
        "a sequence of 10 tokens, but the model has learnt 9 positions; "
        "shorten it, or train with `longest: 10` or with sinusoidal positions"
    ]


@pytest.mark.parametrize("positions", [SinusoidalPositions(size=4), LearntPositions(longest=9, size=4).double()])
def test_padding_needs_no_position(positions: SinusoidalPositions | LearntPositions) -> None:
    """A long source with a short target beside a short source with a long one."""
    offset, real = torch.tensor([7, 2]), torch.arange(5) < torch.tensor([[2], [5]])
    whole = added(positions, 9)[0]
    found = positions(torch.zeros(2, 5, 4, dtype=torch.float64), offset, real)
    close(found[0, :2], whole[7:9])
    close(found[1], whole[2:7])
    with pytest.raises(UserError, match="a sequence of 10 tokens"):
        added(LearntPositions(longest=9, size=4).double(), 3, torch.tensor([7, 2]))


def test_a_learnt_table_is_used_to_its_end() -> None:
    positions = LearntPositions(longest=9, size=4).double()
    close(added(positions, 9)[0], positions.table.weight)


def test_learnt_positions_begin_as_large_as_the_scaled_vectors() -> None:
    torch.manual_seed(3)
    table = LearntPositions(longest=200, size=64).table.weight.detach()
    scaled = LearntPositions(longest=200, size=64)(embedding_table(200, 64).weight.unsqueeze(0)).detach()
    assert float(table.std()) == pytest.approx(1.0, rel=0.03)
    assert float(scaled.std()) == pytest.approx(math.sqrt(2), rel=0.03)
