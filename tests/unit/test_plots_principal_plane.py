"""Principal components, labels that overlap nothing, and the map as a picture."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.image import imread

from antiphon.errors import UserError
from antiphon.plots import sentence_map as drawing
from antiphon.plots.sentence_map import PrincipalPlane, draw_plane, principal_plane
from antiphon.plots.style import text_size


def test_four_points_on_paper() -> None:
    """A cross in the first two of three dimensions: ±2 along (1, 1, 0)/√2, ±1 along (1, −1, 0)/√2."""
    states = np.array([[2, 2, 5], [-2, -2, 5], [1, -1, 5], [-1, 1, 5]]) / np.sqrt([2, 2, 1])
    plane = principal_plane(states)
    np.testing.assert_allclose(np.abs(plane.points), [[2, 0], [2, 0], [0, 1], [0, 1]], atol=1e-12)
    assert plane.shares == pytest.approx((8 / 10, 2 / 10))  # σ² = 2² + 2² and 1² + 1²


def test_the_covariance_says_the_same() -> None:
    """By hand: the eigenvectors of the covariance, largest eigenvalue first."""
    states = np.random.default_rng(3).normal(size=(40, 6)) * [5, 1, 3, 0.5, 0.1, 2] + 7
    centred = states - states.mean(0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(states))
    plane = principal_plane(states)
    for axis in range(2):
        expected = centred @ vectors[:, -1 - axis]
        sign = np.sign(expected @ plane.points[:, axis])
        np.testing.assert_allclose(plane.points[:, axis], sign * expected, atol=1e-9)
        assert plane.shares[axis] == pytest.approx(values[-1 - axis] / values.sum())


@pytest.mark.parametrize("seed", range(8))
def test_the_sign_is_no_accident(seed: int) -> None:
    """The largest value of a direction is positive, so neither the order nor the machine turns the map over."""
    generator = np.random.default_rng(seed)
    states = generator.normal(size=(12, 5)) * [4, 2, 1, 1, 1]
    points = principal_plane(states).points
    order = generator.permutation(12)
    np.testing.assert_allclose(principal_plane(states[order]).points, points[order], atol=1e-9)
    for axis in range(2):
        direction = (states - states.mean(0)).T @ points[:, axis]
        assert direction[np.abs(direction).argmax()] > 0


@pytest.mark.parametrize("states", [np.zeros((3, 4)), np.ones((2, 1)), np.array([[1.0, 2.0], [3.0, 4.0]])])
def test_what_has_fewer_directions(states: np.ndarray) -> None:
    plane = principal_plane(states)
    assert plane.points.shape == (len(states), 2)
    assert np.isfinite(plane.points).all()
    assert 0 <= sum(plane.shares) <= 1 + 1e-12


def test_what_is_equal_but_for_rounding_is_one_spot() -> None:
    """Elsewhere a difference of the seventh digit would fill the whole map."""
    states = np.random.default_rng(0).normal(size=8) * np.ones((5, 1))
    plane = principal_plane(states.astype(np.float32) + np.float32(1e-7) * np.eye(5, 8))
    assert plane.is_single_point
    assert not plane.points.any()
    assert not principal_plane(states + 1e-3 * np.eye(5, 8)).is_single_point


def test_states_that_are_not_numbers() -> None:
    with pytest.raises(UserError, match=r"not numbers; .*train it again"):
        principal_plane(np.array([[1.0, np.nan], [0.0, 1.0]]))


class Label(NamedTuple):
    """A label that was drawn, and the rectangle that it covers, in inches."""

    text: str
    left: float
    bottom: float
    right: float
    top: float


def drawn(points: np.ndarray, labels: list[str]) -> tuple[list[Label], np.ndarray]:
    """The labels that were written, and the dots as they lie in the picture."""
    figures: list[Figure] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "save_figure", lambda figure, _: figures.append(figure))
        draw_plane(PrincipalPlane(points, (0.6, 0.4)), labels, Path("a.png"))
    figure = figures[0]
    found = []
    for text in figure.axes[0].texts:
        size, (x, y) = text_size(text.get_text(), 7.5), text.get_position()
        found.append(Label(text.get_text(), x, y - size.descent, x + size.width, y + size.ascent))
    return found, np.asarray(figure.axes[0].collections[0].get_offsets())


@settings(max_examples=25, deadline=None)
@given(points=st.lists(st.tuples(st.floats(0.0, 9.9), st.floats(0.0, 9.9)), min_size=1, max_size=40))
def test_no_label_touches_another_or_a_dot_or_the_frame(points: list[tuple[float, float]]) -> None:
    labels, dots = drawn(np.array(points), [f"sentence {number}" for number in range(len(points))])
    assert labels
    for label in labels:
        assert label.left > 0
        assert label.bottom > 0
        assert label.right < 11
        for x, y in dots:
            assert not (label.left - 0.03 < x < label.right + 0.03 and label.bottom - 0.03 < y < label.top + 0.03)
    for one, other in combinations(labels, 2):
        assert one.right <= other.left or other.right <= one.left or one.top <= other.bottom or other.top <= one.bottom


def test_the_outermost_points_come_first() -> None:
    """Three dots in a column have room for two labels: the two that are farther from the middle get them."""
    points = np.array([[0.0, 0.045], [0.0, 0.0], [0.0, 0.09], [-5.0, 0.0], [5.0, 0.0]])
    labels, _ = drawn(points, ["inner", "lower", "upper", "left", "right"])
    assert [label.text for label in labels] == ["left", "right", "upper", "lower"]


def test_points_on_one_spot_share_a_label() -> None:
    labels, _ = drawn(np.full((9, 2), 5.0), [f"w{number}" for number in range(9)])
    assert 1 <= len(labels) <= 2  # one on each side


def test_a_label_without_room_is_left_out_and_its_point_stays(tmp_path: Path) -> None:
    points = np.vstack([np.zeros((50, 2)) + np.linspace(0, 0.01, 50)[:, None], [[10.0, 3.0]]])
    labels = [f"crowded {number}" for number in range(50)] + ["far away"]
    draw_plane(PrincipalPlane(points, (0.9, 0.1)), labels, tmp_path / "a.svg", title="fifty-one")
    text = (tmp_path / "a.svg").read_text()
    texts = re.findall(r"<!-- (.*?) -->", text)
    assert "far away" in texts
    assert sum(one.startswith("crowded") for one in texts) < 10
    assert text.count("<use ") >= 51  # a mark for each point
    assert {"fifty-one", "first principal component, 90 % of the variance"} <= {*texts}
    assert "second principal component, 10 % of the variance" in texts


def test_long_labels_are_cut_and_nothing_in_them_acts(tmp_path: Path) -> None:
    points = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.5]])
    draw_plane(PrincipalPlane(points, (0.6, 0.4)), ["x" * 300, "$\\frac{$", "a\n\u202eb"], tmp_path / "a.svg")
    texts = re.findall(r"<!-- (.*?) -->", (tmp_path / "a.svg").read_text())
    assert {"x" * 35 + "…", "$\\frac{$"} <= {*texts}
    assert {"a␊U+202Eb", "a↵U+202Eb"} & {*texts}  # a machine may have a font for ␊


def test_one_scale_for_both_axes(tmp_path: Path) -> None:
    """Equal distances look equal: a cross of equal arms is as wide as high."""
    points = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    draw_plane(PrincipalPlane(points, (0.5, 0.5)), [""] * 4, tmp_path / "a.png")
    pixels = np.asarray(imread(tmp_path / "a.png"))[:, :, :3]
    dots = np.argwhere((pixels[:, :, 2] - pixels[:, :, 0] > 0.3) & (pixels[:, :, 0] < 0.6))
    high, wide = dots.max(0) - dots.min(0)
    assert high == pytest.approx(wide, abs=2)


def test_equal_maps_are_equal_bytes(tmp_path: Path) -> None:
    plane = principal_plane(np.random.default_rng(0).normal(size=(30, 4)))
    for name in ("one.png", "two.png"):
        draw_plane(plane, [f"w{number}" for number in range(30)], tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    with pytest.raises(ValueError, match="2 labels do not fit 30 points"):
        draw_plane(plane, ["a", "b"], tmp_path / "a.png")
