"""A confusion matrix: a row for every class of the references, a column for every class of the answers."""
# K classes, A columns: K, and one more if some answers are no class

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from antiphon.files import write_text
from antiphon.plots.style import (
    HEAT,
    INK,
    LINE,
    QUIET,
    Font,
    Ruler,
    choose_font,
    draw_scale,
    note_lines,
    save_figure,
    stride,
)
from antiphon.text import visible

__all__ = ["OTHER", "confusion_table", "save_confusion"]

OTHER = "(other)"  # what is said and is no class
NOTE = "rows: what is right; columns: what was answered; colour: share of the row"
_SMALLEST_CELL, _LARGEST_CELL = 0.13, 0.48  # inches
_LONGEST_SIDE = 16.0
_WIDE = 7.0  # inches that all cells may take so that names can lie
_POINTS = 9.0
_LEGIBLE = 5.5  # points; smaller counts are left out
_DARK = 0.55  # of the row: on such cells the count is white


def save_confusion(names: list[str], counts: NDArray[Any], path: Path, *, title: str = "") -> None:
    """Write counts [K, K + 1] as PNG, SVG or TSV by suffix; the last column is of all answers that are no class."""
    if path.suffix.lower() == ".tsv":
        write_text(path, confusion_table(names, counts))
        return
    if np.shape(counts) != (len(names), len(names) + 1):
        raise ValueError(f"counts {np.shape(counts)} do not fit {len(names)} classes and one column of other answers")
    others = bool(counts[:, -1].any())
    cells = np.asarray(counts if others else counts[:, :-1])
    columns = [*names, OTHER] if others else names
    font = choose_font([*columns, title, NOTE])
    high = float(np.clip(_LONGEST_SIDE / len(columns), _SMALLEST_CELL, _LARGEST_CELL))
    wide = _width(font, columns, high)
    across, down = wide * len(columns), high * len(names)
    figure = Figure(figsize=(across, down), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))  # labels lie outside; saving cuts tightly around them
    shares = cells / np.maximum(cells.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap=HEAT, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    _write_labels(axes, font, names, columns, (wide, high))
    _draw_grid(axes, cells.shape)
    _write_counts(axes, font, cells, shares, wide)
    scale = min(down, 1.5) / down
    draw_scale(figure, image, font, (1.0 + 0.12 / across, 1.0 - scale, 0.10 / across, scale))
    if title:
        text = axes.set_title(font.writable(title, longest=100, keep=" "), loc="left", pad=10, color=INK)
        text.set(fontproperties=font.sized(10.5), parse_math=False)
    axes.text(
        0.0, -0.12 / down, note_lines(font, 8.0, NOTE, across), transform=axes.transAxes, color=QUIET, ha="left",
        va="top", fontproperties=font.sized(8.0), parse_math=False,
    )  # fmt: skip
    save_figure(figure, path)


def confusion_table(names: list[str], counts: NDArray[Any]) -> str:
    """The same as TSV, with a header of the answers."""
    rows = [["right / answered", *names, OTHER]]
    rows += [[name, *map(str, row)] for name, row in zip(names, counts.tolist(), strict=True)]
    return "".join("\t".join(visible(cell, keep=" ") for cell in row) + "\n" for row in rows)


def _width(font: Font, columns: list[str], high: float) -> float:
    """Of a cell: where there are few, wide enough for the names to lie; else as wide as it is high."""
    lying = Ruler(font, _POINTS).widest(font.writable(name, keep=" ") for name in columns) / 0.85
    return max(high, lying) if lying * len(columns) <= _WIDE else high


def _write_labels(axes: Axes, font: Font, rows: list[str], columns: list[str], cell: tuple[float, float]) -> None:
    """Answers above, references at the left."""
    wide, high = cell
    across, down = stride(_POINTS, wide), stride(_POINTS, high)
    small, ruler = font.sized(_POINTS), Ruler(font, _POINTS)
    above = [font.writable(name, keep=" ") for name in columns]
    left = [font.writable(name, keep=" ") for name in rows]
    axes.xaxis.tick_top()
    axes.set_xticks(range(0, len(above), across), above[::across], fontproperties=small)
    axes.set_yticks(range(0, len(left), down), left[::down], fontproperties=small)
    turned = ruler.turned(above[::across], across * wide)
    for text in axes.get_xticklabels():
        text.set_rotation(turned)
    for text in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        text.set(parse_math=False, color=INK)
    axes.tick_params(length=0, pad=4)


def _draw_grid(axes: Axes, shape: tuple[int, ...]) -> None:
    for spine in axes.spines.values():
        spine.set(color=QUIET, linewidth=0.6)
    axes.set_xticks(np.arange(shape[1] - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(shape[0] - 1) + 0.5, minor=True)
    axes.grid(which="minor", color=LINE, linewidth=0.5)
    axes.tick_params(which="minor", length=0)


def _write_counts(axes: Axes, font: Font, cells: NDArray[np.int64], shares: NDArray[np.float64], wide: float) -> None:
    """In every cell that is not empty, if the largest count fits."""
    widest = Ruler(font, _POINTS).size(f"{cells.max():,}").width
    points = min(_POINTS, _POINTS * 0.8 * wide / widest)
    if points < _LEGIBLE:
        return
    small = font.sized(points)
    for row, column in np.argwhere(cells > 0):
        colour = "white" if shares[row, column] > _DARK else INK
        axes.text(
            column, row, f"{cells[row, column]:,}", color=colour, ha="center", va="center", fontproperties=small
        )  # fmt: skip
