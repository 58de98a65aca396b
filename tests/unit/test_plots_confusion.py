"""The confusion matrix as a picture and as a table."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread

from antiphon.errors import UserError
from antiphon.plots import confusion as pictures
from antiphon.plots.confusion import save_confusion

COUNTS = np.array([[3, 1, 0], [1, 4, 0]])


def test_the_same_as_a_table(tmp_path: Path) -> None:
    save_confusion(["no", "a\tb"], np.array([[3, 1, 0], [1, 4, 2]]), tmp_path / "c.tsv")
    assert (tmp_path / "c.tsv").read_text() == "right / answered\tno\ta␉b\t(other)\nno\t3\t1\t0\na␉b\t1\t4\t2\n"


def test_png_and_svg_are_the_same_bytes_again(tmp_path: Path) -> None:
    for suffix in ("png", "svg"):
        for name in ("one", "two"):
            save_confusion(["no", "yes"], COUNTS, tmp_path / f"{name}.{suffix}", title="70 % of 9 right")
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()
    ElementTree.parse(tmp_path / "one.svg")  # noqa: S314 (our own)


def drawn(monkeypatch: pytest.MonkeyPatch, names: list[str], counts: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The labels of the columns, the texts of the cells, and the colours as numbers."""
    found = []
    monkeypatch.setattr(pictures.style, "save_figure", lambda figure, path: found.append(figure))  # noqa: ARG005
    save_confusion(names, counts, Path("c.png"))
    axes = found[0].axes[0]
    words = [text.get_text() for text in (*axes.get_xticklabels(), *axes.texts)]
    return words, axes.images[0].get_array()


def test_rows_are_references_and_columns_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    words, shares = drawn(monkeypatch, ["no", "yes"], COUNTS)
    assert words[:2] == ["no", "yes"]
    assert {"3", "1", "4"} < set(words)
    assert "0" not in words
    assert shares.tolist() == [[0.75, 0.25], [0.2, 0.8]]


def test_other_answers_have_a_column_if_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    words, shares = drawn(monkeypatch, ["no", "yes"], np.array([[3, 1, 0], [1, 4, 5]]))
    assert words[:3] == ["no", "yes", "(other)"]
    assert shares.tolist() == [[0.75, 0.25, 0.0], [0.1, 0.4, 0.5]]


def test_a_hundred_classes_get_no_numbers_and_no_endless_picture(tmp_path: Path) -> None:
    names = [f"class {number} $x" for number in range(100)]
    counts = np.hstack([np.eye(100, dtype=int) * 12345, np.zeros((100, 1), dtype=int)])
    save_confusion(names, counts, tmp_path / "c.png")
    assert max(imread(tmp_path / "c.png").shape) < 3000


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="do not fit 2 classes"):
        save_confusion(["no", "yes"], COUNTS[:, :2], tmp_path / "c.png")
    with pytest.raises(UserError, match=r"PNG or SVG can be written"):
        save_confusion(["no", "yes"], COUNTS, tmp_path / "c.jpg")
