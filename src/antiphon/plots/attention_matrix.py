"""Attention as a matrix: a row for every target token, a column for every source token."""
# T target steps, S source steps; all lengths in inches

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from antiphon.plots import style
from antiphon.plots.style import ACCENT, HEAT, INK, LINE, QUIET

__all__ = ["COPY_BARS_WIDTH", "draw_attention_matrix", "draw_copy_bars", "label_cells"]

_CELL = 0.30  # a letter of nine points with space around it
_LONGEST_SIDE = 24.0  # more tokens than fit get smaller cells, and not all of them a label
_POINTS = 9.0
_BAR_GAP, _BAR_WIDTH = 0.12, 0.45
COPY_BARS_WIDTH = _BAR_GAP + _BAR_WIDTH + 0.40  # with the numbers behind the bars


def draw_attention_matrix(
    weights: NDArray[Any],
    source: list[str],
    target: list[str],
    path: Path,
    title: str = "",
    *,
    note: str = "",
    prompt_end: tuple[int, int] | None = None,
    copy_probs: list[float] | None = None,
    highest: float | None = None,
) -> None:
    """Write a_ij, the weight of source token j for target token i, as PNG or SVG by suffix.

    The note goes below; `prompt_end` is the row and the column before which a line is drawn; `copy_probs` are the
    probabilities that the target tokens were copied, drawn as bars beside them. The scale ends at `highest`, or at the
    highest weight.
    """
    if np.shape(weights) != (len(target), len(source)):
        raise ValueError(f"weights {np.shape(weights)} do not fit {len(target)} target and {len(source)} source tokens")
    target, source = target or ["(nothing)"], source or ["(nothing)"]
    cells = style.finite_weights(weights) if np.size(weights) else np.zeros((len(target), len(source)))
    width, height = min(len(source) * _CELL, _LONGEST_SIDE), min(len(target) * _CELL, _LONGEST_SIDE)
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))  # labels lie outside; saving cuts tightly around them
    highest = highest or float(cells.max()) or 1.0
    image = axes.imshow(cells, cmap=HEAT, vmin=0.0, vmax=highest, aspect="auto", interpolation="nearest")
    columns, rows = [style.printable(token) for token in source], [style.printable(token) for token in target]
    label_cells(axes, rows, columns, width=width / len(columns), height=height / len(rows))
    _draw_grid(axes, cells.shape, smallest_cell=min(width / len(source), height / len(target)))
    if prompt_end is not None:
        axes.axhline(prompt_end[0] - 0.5, color=INK, linewidth=0.8)
        axes.axvline(prompt_end[1] - 0.5, color=INK, linewidth=0.8)
    if copy_probs:
        draw_copy_bars(figure, copy_probs, points=_POINTS, height=height)
    style.draw_colour_bar(figure, image, gap=0.12 + (COPY_BARS_WIDTH if copy_probs else 0.0))
    if title:
        style.write_title(axes, title)
    if note:
        style.write_note(figure, note)
    style.save_figure(figure, path)


def label_cells(axes: Axes, rows: list[str], columns: list[str], *, width: float, height: float) -> None:
    """Write labels above the columns and left of the rows of cells of this size."""
    step = style.label_step(_POINTS, width)
    rotation = style.label_rotation(columns[::step], _POINTS, step * width)
    axes.xaxis.tick_top()
    style.label_ticks(axes.xaxis, columns, step, _POINTS, rotation=rotation)
    style.label_ticks(axes.yaxis, rows, style.label_step(_POINTS, height), _POINTS)
    axes.tick_params(length=0, pad=4)


def _draw_grid(axes: Axes, shape: tuple[int, ...], *, smallest_cell: float) -> None:
    """Draw thin lines between cells, unless the cells are so small that lines would cover them."""
    T, S = shape
    style.draw_frame(axes)
    if smallest_cell > 0.15:
        axes.vlines(np.arange(S - 1) + 0.5, -0.5, T - 0.5, color=LINE, linewidth=0.5)
        axes.hlines(np.arange(T - 1) + 0.5, -0.5, S - 0.5, color=LINE, linewidth=0.5)


def draw_copy_bars(figure: Figure, probs: list[float], *, points: float, height: float) -> None:
    """Draw a bar from 0 to 1 right of each of the lowest rows of a figure, which are so high together."""
    width, figure_height = figure.get_size_inches()
    axes = figure.add_axes((1.0 + _BAR_GAP / width, 0.0, _BAR_WIDTH / width, height / figure_height))
    axes.set(xlim=(0.0, 1.0), ylim=(len(probs) - 0.5, -0.5), xticks=[], yticks=[])
    axes.barh(range(len(probs)), probs, height=0.6, color=ACCENT)
    small = style.font(min(points, 7.5))
    for row in range(0, len(probs), style.label_step(points, height / len(probs))):
        axes.text(1.08, row, f"{probs[row]:.2f}", fontproperties=small, color=QUIET, va="center", clip_on=False)
    axes.text(0.0, -0.65, "copied", fontproperties=small, color=QUIET, va="bottom", clip_on=False)
    axes.spines[:].set_color(LINE)
