"""A confusion matrix: a row for every class of the references, a column for every class of the answers."""
# K classes; all lengths in inches

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from antiphon.files import write_text
from antiphon.plots import style
from antiphon.plots.attention_matrix import label_cells
from antiphon.plots.style import HEAT, INK, LINE
from antiphon.text import visible

__all__ = ["OTHER", "confusion_table", "save_confusion"]

OTHER = "(other)"  # answers that are no class
NOTE = "rows: what is right; columns: what was answered; colour: share of the row"
_SMALLEST_CELL, _LARGEST_CELL = 0.13, 0.48
_LONGEST_SIDE = 16.0
_WIDEST_FLAT = 7.0  # a wider matrix has square cells and turned labels
_POINTS = 9.0
_LEGIBLE = 5.5  # points; smaller counts are left out
_DARK = 0.55  # share of the row: on such cells the count is white


def save_confusion(names: list[str], counts: NDArray[Any], path: Path, *, title: str = "") -> None:
    """Write counts [K, K + 1] as PNG, SVG or TSV by suffix; the last column is of all answers that are no class."""
    if path.suffix.lower() == ".tsv":
        write_text(path, confusion_table(names, counts))
        return
    if np.shape(counts) != (len(names), len(names) + 1):
        raise ValueError(f"counts {np.shape(counts)} do not fit {len(names)} classes and one column of other answers")
    others = bool(counts[:, -1].any())
    cells = np.asarray(counts if others else counts[:, :-1])
    rows = [style.printable(name, keep=" ") for name in names]
    columns = [*rows, OTHER] if others else rows
    cell_height = float(np.clip(_LONGEST_SIDE / len(columns), _SMALLEST_CELL, _LARGEST_CELL))
    cell_width = _cell_width(columns, cell_height)
    figure = Figure(figsize=(cell_width * len(columns), cell_height * len(rows)), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))  # labels lie outside; saving cuts tightly around them
    shares = cells / np.maximum(cells.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap=HEAT, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    label_cells(axes, rows, columns, width=cell_width, height=cell_height)
    _draw_grid(axes, cells.shape)
    _write_counts(axes, cells, shares, cell_width)
    style.draw_colour_bar(figure, image)
    if title:
        style.write_title(axes, title)
    style.write_note(figure, NOTE)
    style.save_figure(figure, path)


def confusion_table(names: list[str], counts: NDArray[Any]) -> str:
    """The same as TSV, with a header of the answers."""
    rows = [["right / answered", *names, OTHER]]
    rows += [[name, *map(str, row)] for name, row in zip(names, counts.tolist(), strict=True)]
    return "".join("\t".join(visible(cell, keep=" ") for cell in row) + "\n" for row in rows)


def _cell_width(labels: list[str], height: float) -> float:
    """Wide enough for flat labels if there are few, else equal to the height."""
    flat = style.widest(labels, _POINTS) / 0.85
    return max(height, flat) if flat * len(labels) <= _WIDEST_FLAT else height


def _draw_grid(axes: Axes, shape: tuple[int, ...]) -> None:
    style.draw_frame(axes)
    axes.set_xticks(np.arange(shape[1] - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(shape[0] - 1) + 0.5, minor=True)
    axes.grid(which="minor", color=LINE, linewidth=0.5)
    axes.tick_params(which="minor", length=0)


def _write_counts(axes: Axes, cells: NDArray[np.int64], shares: NDArray[np.float64], cell_width: float) -> None:
    """Write the count in every cell that is not 0, if the largest count fits."""
    points = min(_POINTS, _POINTS * 0.8 * cell_width / style.widest([f"{cells.max():,}"], _POINTS))
    if points < _LEGIBLE:
        return
    small = style.font(points)
    for row, column in np.argwhere(cells > 0):
        colour = "white" if shares[row, column] > _DARK else INK
        axes.text(
            column, row, f"{cells[row, column]:,}", color=colour, ha="center", va="center", fontproperties=small
        )  # fmt: skip
