"""The picture of attention over a sound: time is one axis for both parts, any script, equal bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from antiphon.data.source import Array
from antiphon.errors import UserError
from antiphon.plots.spectrogram import draw_spectrogram

DARKEST = (0x12, 0x3F, 0x6B)


def pixels(path: Path) -> Array:
    return np.rint(np.asarray(imread(path))[:, :, :3] * 255)


def where(picture: Array, colour: tuple[int, int, int]) -> tuple[Array, Array]:
    """Rows and columns of this colour, without the scale at the right."""
    rows, columns = np.nonzero((picture == colour).all(axis=2))
    return rows[columns < 670], columns[columns < 670]


@pytest.mark.parametrize("seconds", [0.01, None])
def test_both_parts_have_one_time(tmp_path: Path, seconds: float | None) -> None:
    """Loud at steps 40 to 43, where vector 10 of 25 stands: black above and darkest blue below, in the same columns."""
    spectrum = np.zeros((98, 20))
    spectrum[40:44] = 1.0
    weights = np.zeros((3, 25))
    weights[1, 10] = 1.0
    draw_spectrogram(spectrum, weights, ["a", "b", "c"], tmp_path / "a.png", factor=4, seconds=seconds)
    picture = pixels(tmp_path / "a.png")
    black_rows, black = where(picture, (0, 0, 0))
    blue_rows, blue = where(picture, DARKEST)
    assert black.size > 20 * 50
    assert blue.size > 20 * 20
    assert black_rows.max() < blue_rows.min()
    assert abs(int(black.min()) - int(blue.min())) <= 1
    assert abs(int(black.max()) - int(blue.max())) <= 1


def test_low_bands_are_below_and_first_values_above(tmp_path: Path) -> None:
    spectrum = np.zeros((100, 20))
    spectrum[50:54, 0] = 1.0
    heights = []
    for seconds in (0.01, None):
        draw_spectrogram(spectrum, np.zeros((1, 100)), ["a"], tmp_path / "a.png", factor=1, seconds=seconds)
        heights.append(float(np.median(where(pixels(tmp_path / "a.png"), (0, 0, 0))[0])))
    assert heights[0] > heights[1] + 50


@pytest.mark.parametrize(("seconds", "unit", "last"), [(0.01, "seconds", "0.5"), (None, "step", "50")])
def test_the_axis_says_seconds_or_steps(tmp_path: Path, seconds: float | None, unit: str, last: str) -> None:
    draw_spectrogram(np.eye(51, 8), np.zeros((1, 13)), ["a"], tmp_path / "a.svg", factor=4, seconds=seconds)
    written = (tmp_path / "a.svg").read_text()
    assert f"<!-- {unit} -->" in written
    assert f"<!-- {last} -->" in written


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_equal_pictures_are_equal_bytes(tmp_path: Path, suffix: str) -> None:
    spectrum, weights = np.random.default_rng(1).normal(size=(30, 5)), np.full((2, 8), 0.1)
    for name in ("one", "two"):
        draw_spectrogram(spectrum, weights, ["你", "$x$ \x1b"], tmp_path / f"{name}.{suffix}", "مرحبا", factor=4)
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


@pytest.mark.parametrize(("steps", "words"), [(1, 1), (1, 0), (3, 120), (2000, 2)])
def test_odd_sizes(tmp_path: Path, steps: int, words: int) -> None:
    weights = np.full((words, steps), np.nan)
    draw_spectrogram(np.ones((steps, 1)), weights, ["w"] * words, tmp_path / "a.png", factor=1)
    assert max(pixels(tmp_path / "a.png").shape) < 4000


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"weights \(1, 3\) do not fit 1 words and 13 steps by 4"):
        draw_spectrogram(np.ones((13, 2)), np.ones((1, 3)), ["a"], tmp_path / "a.png", factor=4)
    with pytest.raises(UserError):
        draw_spectrogram(np.ones((4, 2)), np.ones((1, 1)), ["a"], tmp_path / "a.gif", factor=4)
