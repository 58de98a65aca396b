"""Attention over pictures and videos, drawn: the layer lies where the weight is, any number of words, equal bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from antiphon.errors import UserError
from antiphon.plots.image_attention import attention_scale, draw_image_attention, draw_images_beside, overlay_heat
from antiphon.plots.video_attention import draw_video_attention

PHOTO = np.full((32, 32, 3), 0.5)
LINE = np.full((10, 200), 1.0)
VIDEO = np.full((6, 8, 8), 0.5)
ODD = ["你", "مرحبا", "$x$", "\n", " ", "", "\ud800", "w" * 200]


def pixels(path: Path) -> np.ndarray:
    return np.asarray(imread(path))[:, :, :3]


def orange(path: Path) -> np.ndarray:
    """The positions of high attention."""
    seen = pixels(path)
    return np.argwhere((seen[..., 0] > 0.75) & (seen[..., 2] < 0.3))


def photo(weights: np.ndarray, words: list[str], path: Path) -> None:
    draw_image_attention(PHOTO, weights.reshape(len(words), 2, 3), words, path, "t")


def line(weights: np.ndarray, words: list[str], path: Path) -> None:
    draw_image_attention(LINE, weights.reshape(len(words), 1, 6), words, path, "t")


def video(weights: np.ndarray, words: list[str], path: Path) -> None:
    draw_video_attention(VIDEO, weights.reshape(len(words), 6), words, path, "t")


Draw = Callable[[np.ndarray, list[str], Path], None]
every_kind = pytest.mark.parametrize("draw", [photo, line, video])


def test_the_layer_is_strongest_at_the_heaviest_cell() -> None:
    weights = np.zeros((4, 4))
    weights[3, 0] = 1.0  # below, left
    mixed = overlay_heat(PHOTO, weights, 1.0)
    glow = mixed[..., 0] - mixed[..., 2]
    assert mixed.shape == (32, 32, 3)
    assert np.unravel_index(glow.argmax(), glow.shape)[0] >= 24
    assert glow[28, 4] > 0.5 > 0.01 > glow[:16, 16:].max()  # elsewhere, the picture is grey
    steps = np.abs(np.diff(glow[28]))
    assert steps.max() < 0.2  # without edges between cells


def test_all_words_have_one_scale_which_even_weights_do_not_reach() -> None:
    even = np.full((3, 4, 4), 1 / 16)
    assert attention_scale(even) == 8 / 16  # 8 times the mean
    even[2, 0, 0] = 0.9
    assert attention_scale(even) == 0.9
    half, whole = (overlay_heat(PHOTO, even[0] * 16 * share, 1.0)[0, 0] for share in (0.5, 1.0))
    assert half[0] - half[2] == pytest.approx((whole[0] - whole[2]) / 2)
    assert attention_scale(np.zeros((0, 2, 2))) == 1.0


def captions(path: Path) -> str:
    return " ".join(re.findall("<!-- (.*?) -->", path.read_text()))


def test_the_caption_has_the_scale_the_receptive_field_and_what_is_nearly_uniform(tmp_path: Path) -> None:
    path, weights = tmp_path / "a.svg", np.full((2, 4, 4), 1 / 16)
    draw_image_attention(PHOTO, weights, ["one", "two"], path)
    assert "from 0 to 0.5; a cell also knows its surroundings" in captions(path)
    assert captions(path).endswith("nearly uniform for every word")
    weights[1] = np.eye(4) / 4
    draw_image_attention(PHOTO, weights, ["one", "two"], path)
    assert captions(path).endswith("nearly uniform for one")
    draw_image_attention(PHOTO, weights[1:], ["two"], path, highest=0.75)
    assert "from 0 to 0.75;" in captions(path)
    assert "uniform" not in captions(path)


@pytest.mark.parametrize("image", [PHOTO, LINE])
def test_runs_beside_one_another_have_their_names_and_scales(tmp_path: Path, image: np.ndarray) -> None:
    soft, hard = np.full((5, 1, 6), 1 / 6), np.zeros((5, 1, 6))
    soft[:, 0, 0], hard[:, 0, 5] = 0.5, 1.0
    draw_images_beside(image, {"left": soft, "right": hard}, list("abcde"), tmp_path / "a.svg")
    shown = re.findall("<!-- (.*?) -->", (tmp_path / "a.svg").read_text())
    assert "from 0 to 1 (left), 1 (right)" in captions(tmp_path / "a.svg")
    assert [shown.count(word) for word in ("left", "right", "a", "e", "0.50", "1.00")] == [1, 1, 2, 2, 5, 5]


def test_a_colour_picture_is_grey_below_the_layer() -> None:
    red = np.zeros((4, 4, 3))
    red[..., 0] = 1.0
    assert overlay_heat(red, np.zeros((2, 2)), 1.0) == pytest.approx(np.full((4, 4, 3), 0.299))


def test_the_words_of_a_photo_come_in_rows(tmp_path: Path) -> None:
    weights = np.zeros((5, 2, 3))
    weights[4, 0, 2] = 1.0  # the picture itself and five words in rows of four: the last is below, second from left
    draw_image_attention(PHOTO, weights, list("abcde"), tmp_path / "a.png")
    high, wide, _ = pixels(tmp_path / "a.png").shape
    rows, columns = orange(tmp_path / "a.png").T
    assert 0.5 * high < np.median(rows) < 0.85 * high  # the upper half of the second row
    assert 0.4 * wide < np.median(columns) < 0.5 * wide  # the right third of the second column


def test_a_line_has_a_mark_below_its_heaviest_column(tmp_path: Path) -> None:
    weights = np.zeros((2, 1, 4))
    weights[0, 0, 0] = weights[1, 0, 3] = 1.0
    draw_image_attention(LINE, weights, ["a", "b"], tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text().count("fill: #e8590c") == 2
    draw_image_attention(LINE, weights, ["a", "b"], tmp_path / "a.png")
    places = orange(tmp_path / "a.png")
    middle = (places[:, 0].min() + places[:, 0].max()) / 2
    above, below = places[places[:, 0] < middle, 1], places[places[:, 0] > middle, 1]
    assert above.max() < below.min()


def test_the_strip_of_a_word_lies_below_its_frames(tmp_path: Path) -> None:
    weights = np.zeros((2, 6))
    weights[1, 5] = 1.0
    draw_video_attention(VIDEO, weights, ["a", "b"], tmp_path / "a.png")
    seen = np.rint(pixels(tmp_path / "a.png") * 255)
    rows, columns = np.nonzero((seen == (0x12, 0x3F, 0x6B)).all(axis=2))
    assert rows.size > 25 * 80  # a cell, and a few pixels of the scale
    assert np.median(rows) > 0.7 * len(seen)
    assert np.median(columns) > 0.75 * seen.shape[1]


@pytest.mark.parametrize(("draw", "suffix"), [(photo, "png"), (photo, "svg"), (line, "svg"), (video, "png")])
def test_any_script_and_equal_bytes(tmp_path: Path, draw: Draw, suffix: str) -> None:
    weights = np.random.default_rng(1).dirichlet(np.ones(6), size=len(ODD))
    for name in ("one", "two"):
        draw(weights, ODD, tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()
    draw(weights[::-1], ODD, tmp_path / f"two.{suffix}")
    assert (tmp_path / f"one.{suffix}").read_bytes() != (tmp_path / f"two.{suffix}").read_bytes()


@every_kind
def test_none_one_and_many_words(tmp_path: Path, draw: Draw) -> None:
    sizes = []
    for count in (0, 1, 20):
        draw(np.full((count, 6), 1 / 6), ["word"] * count, tmp_path / "a.png")
        sizes.append(pixels(tmp_path / "a.png").size)
    assert sizes[0] < sizes[1] < sizes[2]


@every_kind
def test_what_is_not_a_number_can_be_drawn(tmp_path: Path, draw: Draw) -> None:
    draw(np.full((1, 6), np.nan), ["a"], tmp_path / "a.png")
    assert (tmp_path / "a.png").exists()


def test_of_a_long_video_not_every_frame_is_shown(tmp_path: Path) -> None:
    shown = []
    for count in (4, 400):
        draw_video_attention(np.zeros((count, 8, 8)), np.zeros((1, count)), ["a"], tmp_path / "a.svg")
        shown.append(re.findall("<!-- ([0-9]+) -->", (tmp_path / "a.svg").read_text()))
    assert shown[0] == ["1", "2", "3", "4", "0", "1"]  # and the ends of the scale
    assert 25 < len(shown[1]) < 40
    assert {"1", "14", "378"} <= set(shown[1])


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"weights \(1, 2, 2\) do not fit 2 words"):
        draw_image_attention(PHOTO, np.zeros((1, 2, 2)), ["a", "b"], tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"an image \(2, 2, 2\) is not"):
        draw_image_attention(np.zeros((2, 2, 2)), np.zeros((1, 2, 2)), ["a"], tmp_path / "a.png")
    with pytest.raises(ValueError, match="do not fit 1 words and 6 frames"):
        draw_video_attention(VIDEO, np.zeros((1, 5)), ["a"], tmp_path / "a.png")
    with pytest.raises(ValueError, match="are not"):
        draw_video_attention(np.zeros((2, 2)), np.zeros((1, 2)), ["a"], tmp_path / "a.png")
    with pytest.raises(UserError, match="PNG or SVG"):
        draw_image_attention(PHOTO, np.zeros((1, 2, 2)), ["a"], tmp_path / "a.jpg")
