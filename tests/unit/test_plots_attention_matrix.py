"""The attention picture: right cells, any script, equal bytes, clear refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from antiphon.errors import DiskError, UserError
from antiphon.plots import style
from antiphon.plots.attention_matrix import draw_attention_matrix
from antiphon.plots.style import font, metric_label, printable
from antiphon.text import visible

ODD = ["你", "مرحبا", "$x$", "e\u0301", "\n", " ", "\u202eabc", "", "👩‍👩‍👧", "\ud800", "w" * 200]


def test_the_heaviest_cell_is_where_it_belongs(tmp_path: Path) -> None:
    weights = np.zeros((4, 6))
    weights[0, 5] = 1.0  # first target token, last source token: the upper right
    draw_attention_matrix(weights, list("abcdef"), list("wxyz"), tmp_path / "a.png")
    pixels = np.rint(np.asarray(imread(tmp_path / "a.png"))[:, :, :3] * 255)
    rows, columns = np.nonzero((pixels == (0x12, 0x3F, 0x6B)).all(axis=2))
    assert rows.size > 30 * 30  # a cell, and a few pixels of the scale
    assert 45 < np.median(rows) < 75  # right below the labels
    assert 190 < np.median(columns) < 250


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_any_script_without_a_warning(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    draw_attention_matrix(np.full((len(ODD), len(ODD)), 0.1), ODD, ODD, path, title="你好 $\\frac{$ \x1b[31m")
    assert path.stat().st_size > 1000


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_equal_pictures_are_equal_bytes(tmp_path: Path, suffix: str) -> None:
    weights = np.random.default_rng(1).dirichlet(np.ones(5), size=3)
    for name in ("one", "two"):
        draw_attention_matrix(
            weights, list("abcde"), ["long words", "y", "z"], tmp_path / f"{name}.{suffix}", title="t"
        )
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()
    weights[0] = weights[0, ::-1]
    draw_attention_matrix(weights, list("abcde"), ["long words", "y", "z"], tmp_path / f"three.{suffix}", title="t")
    assert (tmp_path / f"three.{suffix}").read_bytes() != (tmp_path / f"one.{suffix}").read_bytes()


def test_if_one_label_does_not_fit_all_are_turned(tmp_path: Path) -> None:
    for source, turned in ((["a", "b", "wonderful"], 3), (["a", "b", "c"], 0)):
        draw_attention_matrix(np.zeros((1, 3)), source, ["x"], tmp_path / "a.svg")
        assert (tmp_path / "a.svg").read_text().count("rotate(-90)") == turned


def test_the_note_and_the_line_after_the_prompt(tmp_path: Path) -> None:
    draw_attention_matrix(np.zeros((2, 2)), ["a", "b"], ["x", "y"], tmp_path / "plain.svg")
    draw_attention_matrix(
        np.zeros((2, 2)), ["a", "b"], ["x", "y"], tmp_path / "a.svg", note="what is what", prompt_end=(1, 1)
    )
    plain, noted = (tmp_path / "plain.svg").read_text(), (tmp_path / "a.svg").read_text()
    assert "<!-- what is what -->" in noted
    assert noted.count("stroke: #1b2430") == plain.count("stroke: #1b2430") + 2


def test_the_picture_grows_with_the_tokens_up_to_a_limit(tmp_path: Path) -> None:
    widths = []
    for count in (5, 60, 300):
        draw_attention_matrix(np.zeros((2, count)), ["w"] * count, ["a", "b"], tmp_path / "a.png")
        widths.append(imread(tmp_path / "a.png").shape[1])
    assert widths[1] >= 60 * 30  # pixels a column: a letter has room
    assert widths[0] < widths[1] < widths[2] < 3500


def test_what_is_not_a_number_and_what_is_empty_can_be_drawn(tmp_path: Path) -> None:
    draw_attention_matrix(np.array([[np.nan, np.inf]]), ["a", "b"], ["c"], tmp_path / "nan.png")
    draw_attention_matrix(np.zeros((0, 2)), ["a", "b"], [], tmp_path / "deep" / "er" / "empty.png")
    assert (tmp_path / "deep" / "er" / "empty.png").exists()


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\(2, 2\) do not fit 1 target and 2 source"):
        draw_attention_matrix(np.zeros((2, 2)), ["a", "b"], ["c"], tmp_path / "a.png")
    with pytest.raises(UserError, match=r"a\.jpg: .*\.png or \.svg"):
        draw_attention_matrix(np.zeros((1, 1)), ["a"], ["c"], tmp_path / "a.jpg")
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="cannot be written"):
        draw_attention_matrix(np.zeros((1, 1)), ["a"], ["c"], tmp_path / "file" / "a.png")


def test_a_letter_no_font_has_is_written_as_its_number() -> None:
    assert printable("a") == "a"
    assert printable("\U00013000") in (
        "\U00013000",
        "U+13000",
    )  # an Egyptian hieroglyph; a machine may have a font for it
    assert printable("\U000f0000") == "U+F0000"  # for private use
    assert printable("\x02") in ("␂", "U+0002")
    assert printable("a\nb\tc") in ("a␊b␉c", "a↵b⇥c")  # the base font has the arrows
    assert printable("x" * 50) == "x" * 23 + "…"


def test_a_font_has_only_the_families_that_its_text_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    characters = {"DejaVu Sans": "ab", "Noto Sans CJK JP": "b你", "Unifont": "a你ж"}
    monkeypatch.setattr(style, "_families", lambda: list(characters))
    monkeypatch.setattr(style, "_code_points", lambda family: frozenset(map(ord, characters[family])))
    monkeypatch.setattr(style, "_family_of", style._family_of.__wrapped__)
    assert font(9, "ab").get_family() == ["DejaVu Sans"]
    assert font(9, "b你").get_family() == ["DejaVu Sans", "Noto Sans CJK JP"]
    assert font(9, "ж你").get_family() == ["DejaVu Sans", "Noto Sans CJK JP", "Unifont"]
    assert printable("你c") == "你U+0063"


def test_nothing_in_a_label_acts() -> None:
    assert visible("a b\n\x1b\x7f\u202e\u2028\x85") == "a␣b␊␛␡U+202EU+2028U+0085"
    assert visible("a b\n", keep=" \n") == "a b\n"
    assert visible("👩‍👧") == "👩‍👧"
    assert metric_label("per") == "phoneme error rate (%)"
    assert metric_label("my_own") == "my own"
