"""Principal components, labels that have room, and the map as a picture."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread

from antiphon.errors import UserError
from antiphon.plots import map_plane as drawing
from antiphon.plots.map_plane import Box, Plane, draw_plane, place_labels, principal_plane


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
    assert plane.one_spot
    assert not plane.points.any()
    assert not principal_plane(states + 1e-3 * np.eye(5, 8)).one_spot


def test_states_that_are_not_numbers() -> None:
    with pytest.raises(UserError, match=r"not numbers; .*train it again"):
        principal_plane(np.array([[1.0, np.nan], [0.0, 1.0]]))


FRAME = Box(0.0, 0.0, 10.0, 10.0)
POINTS = st.lists(st.tuples(st.floats(0.1, 9.9), st.floats(0.1, 9.9)), min_size=1, max_size=40)


@given(points=POINTS, wide=st.floats(0.1, 3.0))
def test_no_label_touches_another_or_a_point_or_the_frame(points: list[tuple[float, float]], wide: float) -> None:
    places = np.array(points)
    boxes = place_labels(places, np.tile([wide, 0.2], (len(points), 1)), FRAME, radius=0.05)
    shown = [box for box in boxes if box is not None]
    for number, box in enumerate(boxes):
        if box is None:
            continue
        others = places[np.abs(places - places[number]).max(axis=1) > 0.05]
        for x, y in others:  # farther from them than from its own, or it would seem theirs
            near = box.left - 0.149 < x < box.right + 0.149 and box.bottom - 0.099 < y < box.top + 0.099
            assert not near
    for box in shown:
        assert box.inside(FRAME)
        assert (box.right - box.left, box.top - box.bottom) == pytest.approx((wide, 0.2))
        for x, y in points:
            assert not (box.left - 0.05 < x < box.right + 0.05 and box.bottom - 0.05 < y < box.top + 0.05)
    for one, other in combinations(shown, 2):
        assert one.right <= other.left or other.right <= one.left or one.top <= other.bottom or other.top <= one.bottom


def test_the_most_isolated_comes_first() -> None:
    """There is room for one label in all, and the point far from the others gets it, though it comes last."""
    points = np.array([[1.0, 0.5], [1.6, 0.5], [4.0, 0.5]])
    frame, sizes = Box(0.0, 0.2, 6.0, 1.1), np.tile([2.2, 0.4], (3, 1))
    boxes = place_labels(points, sizes, frame, radius=0.05)
    assert [box is not None for box in boxes] == [False, False, True]
    without = place_labels(points[:2], sizes[:2], frame, radius=0.05)
    assert [box is not None for box in without] == [False, True]


def test_a_label_does_not_end_at_the_dot_of_another() -> None:
    """To the left of the right point the label would end beside the left one, so it goes above."""
    points, frame = np.array([[1.0, 2.0], [2.2, 2.0]]), Box(0.0, 0.0, 2.4, 4.0)
    boxes = place_labels(points, np.array([[5.0, 0.1], [1.0, 0.1]]), frame, radius=0.05)
    [_, box] = boxes
    assert box is None or box.left >= 1.15 or box.bottom >= 2.1 or box.top <= 1.9


def test_points_on_one_spot_share_a_label() -> None:
    boxes = place_labels(np.full((9, 2), 5.0), np.tile([1.0, 0.2], (9, 1)), FRAME, radius=0.05)
    assert any(box is not None for box in boxes)


def test_the_ink_of_a_label_is_inside_its_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flat letters, hanging ones and towering ones: what is drawn is where room was made for it."""
    boxes: list[Box] = []
    figures: list[Figure] = []

    def place(*arguments: np.ndarray, **options: float) -> list[Box | None]:
        found = place_labels(*arguments, **options)  # type: ignore[arg-type]
        boxes.extend(box for box in found if box is not None)
        return found

    monkeypatch.setattr(drawing, "place_labels", place)
    monkeypatch.setattr(drawing, "save_figure", lambda figure, _: figures.append(figure))
    points = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.5], [0.5, 0.2]])
    draw_plane(Plane(points, (0.6, 0.4)), ["acenosu", "pgqy", "ÁÇŮ|", "lp"], tmp_path / "a.png")
    [figure] = figures
    figure.set_dpi(300)
    figure.axes[0].collections[0].set_visible(False)
    for spine in figure.axes[0].spines.values():
        spine.set_visible(False)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    dark = np.asarray(canvas.buffer_rgba())[::-1, :, :3].min(axis=2) < 160
    assert len(boxes) == 4
    for box in boxes:
        left, bottom, right, top = (round(300 * side) for side in (box.left, box.bottom, box.right, box.top))
        assert dark[bottom : top + 1, left : right + 1].any()
        dark[bottom - 1 : top + 2, left - 1 : right + 2] = False  # a pixel for rounding
    assert not dark.any()


def test_a_label_without_room_is_left_out_and_its_point_stays(tmp_path: Path) -> None:
    points = np.vstack([np.zeros((50, 2)) + np.linspace(0, 0.01, 50)[:, None], [[10.0, 3.0]]])
    labels = [f"crowded {number}" for number in range(50)] + ["far away"]
    draw_plane(Plane(points, (0.9, 0.1)), labels, tmp_path / "a.svg", title="fifty-one")
    text = (tmp_path / "a.svg").read_text()
    texts = re.findall(r"<!-- (.*?) -->", text)
    assert "far away" in texts
    assert sum(one.startswith("crowded") for one in texts) < 10
    assert text.count("<use ") >= 51  # a mark for each point
    assert {"fifty-one", "first principal component, 90 % of the variance"} <= {*texts}
    assert "second principal component, 10 % of the variance" in texts


def test_long_labels_are_cut_and_nothing_in_them_acts(tmp_path: Path) -> None:
    points = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.5]])
    draw_plane(Plane(points, (0.6, 0.4)), ["x" * 300, "$\\frac{$", "a\n\u202eb"], tmp_path / "a.svg")
    texts = re.findall(r"<!-- (.*?) -->", (tmp_path / "a.svg").read_text())
    assert {"x" * 35 + "…", "$\\frac{$"} <= {*texts}
    assert {"a␊U+202Eb", "a↵U+202Eb"} & {*texts}  # a machine may have a font for ␊


def test_one_scale_for_both_axes(tmp_path: Path) -> None:
    """Equal distances look equal: a cross of equal arms is as wide as high."""
    points = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    draw_plane(Plane(points, (0.5, 0.5)), [""] * 4, tmp_path / "a.png")
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
