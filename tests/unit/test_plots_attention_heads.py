"""The grid of heads: a panel for each, right cells, tokens on both sides of it."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from antiphon.errors import UserError
from antiphon.plots.attention_heads import draw_heads
from antiphon.plots.style import label_rotation, text_size

DARKEST = (0x12, 0x3F, 0x6B)


def written(path: Path) -> list[str]:
    """Every text of an SVG, in order: matplotlib names each in a comment beside its outlines."""
    return re.findall(r"<!-- (.*?) -->", path.read_text())


def dark(path: Path) -> np.ndarray:
    """The positions of the darkest colour, as rows of (row, column), without the scale at the right edge."""
    pixels = np.rint(np.asarray(imread(path))[:, :, :3] * 255)
    places = np.argwhere((pixels == DARKEST).all(axis=2))
    return places[places[:, 1] < 0.9 * pixels.shape[1]]


def grid(L: int, N: int, T: int, S: int) -> np.ndarray:
    return np.full((L, N, T, S), 1.0 / S)


def test_each_layer_is_a_row_and_each_head_a_column(tmp_path: Path) -> None:
    middles = {}
    for layer, head in np.ndindex(2, 3):
        weights = np.zeros((2, 3, 4, 5))
        weights[layer, head, 0, 0] = 1.0
        draw_heads(weights, list("wxyz"), list("abcde"), tmp_path / "a.png")
        middles[layer, head] = np.median(dark(tmp_path / "a.png"), axis=0)
    across = [middles[0, head][1] for head in range(3)]
    assert np.diff(across) == pytest.approx([across[1] - across[0]] * 2, abs=1.5)
    assert across[1] - across[0] > 5 * 0.13 * 120  # five cells of the smallest size, and a gap
    assert middles[1, 0][0] - middles[0, 0][0] > 4 * 0.13 * 120
    assert middles[1, 2] == pytest.approx((middles[1, 0][0], middles[0, 2][1]), abs=1.5)


def test_a_row_of_cells_is_a_row_and_a_column_a_column(tmp_path: Path) -> None:
    places = {}
    for cell in [(0, 0), (3, 0), (0, 4)]:
        weights = np.zeros((1, 2, 4, 5))
        weights[(0, 1, *cell)] = 1.0
        draw_heads(weights, list("wxyz"), list("abcde"), tmp_path / "a.png")
        places[cell] = np.median(dark(tmp_path / "a.png"), axis=0)
    down, across = places[3, 0] - places[0, 0], places[0, 4] - places[0, 0]
    assert down[0] == pytest.approx(3 * 0.26 * 120, abs=3)
    assert across[1] == pytest.approx(4 * 0.26 * 120, abs=3)
    assert (down[1], across[0]) == pytest.approx((0, 0), abs=1.5)


def test_tokens_stand_once_beside_each_layer_and_above_each_head(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    draw_heads(grid(2, 3, 2, 2), ["ein", "Mann"], ["a", "man"], path, title="ein Mann", note="what is what")
    texts = written(path)
    assert [texts.count(row) for row in ("ein", "Mann")] == [2, 2]
    assert [texts.count(column) for column in ("a", "man")] == [3, 3]
    assert [text for text in texts if text.startswith(("head", "layer"))] == [
        "head 1", "head 2", "head 3", "layer 1", "layer 2",
    ]  # fmt: skip
    assert {"ein Mann", "what is what"} <= {*texts}


def test_chosen_layers_and_heads_keep_their_numbers(tmp_path: Path) -> None:
    draw_heads(grid(1, 2, 1, 1), ["a"], ["b"], tmp_path / "a.svg", layers=[5], heads=[2, 7])
    assert [text for text in written(tmp_path / "a.svg") if " " in text] == ["head 2", "head 7", "layer 5"]


def test_many_tokens_get_fewer_labels_that_never_touch(tmp_path: Path) -> None:
    rows = [f"r{number}" for number in range(120)]
    columns = [f"c{number}" for number in range(80)]
    draw_heads(grid(6, 2, 120, 80), rows, columns, tmp_path / "a.svg")
    shown = [int(text[1:]) for text in written(tmp_path / "a.svg") if text in rows]
    assert shown[0] == 0
    steps = {later - before for before, later in pairwise(shown) if later > before}
    assert len(steps) == 1
    apart = steps.pop() * (24 - 5 * 0.16) / (6 * 120)  # inches from one label to the next
    assert apart > text_size("r0", 6.0).height


def rotations(path: Path) -> dict[str, bool]:
    """For each text of an SVG, True if it is rotated."""
    groups = re.findall(r"<!-- (.*?) -->\s*<g ([^>]*)>", path.read_text())
    return {text: "rotate(-90)" in attributes for text, attributes in groups}


def test_if_one_label_does_not_fit_all_are_turned(tmp_path: Path) -> None:
    draw_heads(grid(1, 2, 2, 3), ["x", "y"], ["a", "b", "wonderful"], tmp_path / "a.svg")
    turned = rotations(tmp_path / "a.svg")
    assert [turned[label] for label in ("a", "b", "wonderful")] == [True, True, True]
    draw_heads(grid(1, 2, 2, 3), ["x", "y"], ["a", "b", "c"], tmp_path / "a.svg")
    turned = rotations(tmp_path / "a.svg")
    assert [turned[label] for label in ("a", "b", "c")] == [False, False, False]


def test_labels_side_by_side_have_air() -> None:
    wide = text_size("mm", 9.0).width
    assert label_rotation(["a", "mm"], 9.0, wide / 0.84) == 0
    assert label_rotation(["a", "mm"], 9.0, wide / 0.86) == 90


def test_a_line_parts_each_panel(tmp_path: Path) -> None:
    """As many dark pixels more as two lines in each of two panels have."""
    counts = []
    for prompt_end in (None, (2, 3)):
        draw_heads(np.zeros((1, 2, 4, 5)), list("wxyz"), list("abcde"), tmp_path / "a.png", prompt_end=prompt_end)
        counts.append(int((np.asarray(imread(tmp_path / "a.png"))[:, :, :3].max(axis=2) < 0.7).sum()))
    assert counts[1] - counts[0] > 2 * (4 + 5) * 0.26 * 120 * 0.9


def test_a_long_note_is_wrapped(tmp_path: Path) -> None:
    note = " ".join(["word"] * 50)
    draw_heads(grid(1, 1, 1, 1), ["a"], ["b"], tmp_path / "a.svg", note=note)
    lines = [text for text in written(tmp_path / "a.svg") if text.startswith("word")]
    assert len(lines) > 1
    assert " ".join(lines) == note
    draw_heads(grid(1, 1, 1, 1), ["a"], ["b"], tmp_path / "a.png", note=note)
    assert imread(tmp_path / "a.png").shape[1] < 6 * 120


def test_the_picture_has_a_largest_size(tmp_path: Path) -> None:
    draw_heads(grid(6, 8, 150, 150), ["w"] * 150, ["w"] * 150, tmp_path / "a.png")
    assert max(imread(tmp_path / "a.png").shape) < 25.5 * 120


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_any_script_and_equal_bytes(tmp_path: Path, suffix: str) -> None:
    odd = ["你", "مرحبا", "$x$", "\n", "\u202eabc", "", "w" * 200]
    weights = np.random.default_rng(1).dirichlet(np.ones(7), size=(2, 2, 7))
    weights[0, 0, 0] = np.nan
    for name in ("one", "two"):
        draw_heads(weights, odd, odd, tmp_path / f"{name}.{suffix}", title="$\\frac{$", note="你好")
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\(1, 1, 2, 2\) do not fit 1 rows and 2 columns"):
        draw_heads(grid(1, 1, 2, 2), ["a"], ["b", "c"], tmp_path / "a.png")
    with pytest.raises(UserError, match=r"a\.jpg: .*\.png or \.svg"):
        draw_heads(grid(1, 1, 1, 1), ["a"], ["b"], tmp_path / "a.jpg")
