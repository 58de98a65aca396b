"""Attention of every layer and head: a small panel for each, all on one scale."""
# L layers, N heads, T rows, S columns; all lengths in inches

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from antiphon.plots import style
from antiphon.plots.attention_matrix import COPY_BARS_WIDTH, draw_copy_bars
from antiphon.plots.style import HEAT, INK, LINE, QUIET

__all__ = ["draw_heads"]

_USUAL_WIDTH = 11.0  # of the panels of a row together
_LONGEST_SIDE = 24.0  # more tokens than fit get smaller cells, and not all of them a label
_SMALLEST_CELL, _LARGEST_CELL = 0.13, 0.26
_SMALLEST_PANEL = 0.55  # "head 12" fits above it
_GAP = 0.16
_LABEL_GAP = 0.06  # between a label and its panel
_Panel = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class _HeadGrid:
    """The places of the panels; the origin is the upper left corner of the first one."""

    layers: int
    heads: int
    rows: int
    columns: int
    cell_width: float
    cell_height: float

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> _HeadGrid:
        L, N, T, S = shape
        usual = float(np.clip(_USUAL_WIDTH / max(N * S, L * T), _SMALLEST_CELL, _LARGEST_CELL))
        width = min(max(usual, _SMALLEST_PANEL / S), (_LONGEST_SIDE - (N - 1) * _GAP) / (N * S))
        height = min(max(usual, _SMALLEST_PANEL / T), (_LONGEST_SIDE - (L - 1) * _GAP) / (L * T))
        return cls(L, N, T, S, width, height)

    @property
    def panel(self) -> tuple[float, float]:
        """Width and height of a panel."""
        return self.columns * self.cell_width, self.rows * self.cell_height

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of all panels."""
        return self.left(self.heads) - _GAP, self.top(self.layers) - _GAP

    @property
    def points(self) -> float:
        """Font size of the tokens."""
        return float(np.clip(72 * 0.62 * min(self.cell_width, self.cell_height), 6.0, 9.0))

    def left(self, head: int) -> float:
        return head * (self.panel[0] + _GAP)

    def top(self, layer: int) -> float:
        return layer * (self.panel[1] + _GAP)


def draw_heads(
    weights: NDArray[Any],
    rows: list[str],
    columns: list[str],
    path: Path,
    *,
    title: str = "",
    note: str = "",
    layers: list[int] | None = None,
    heads: list[int] | None = None,
    prompt_end: tuple[int, int] | None = None,
    copy_probs: list[float] | None = None,
) -> None:
    """Write weights [L, N, T, S] as PNG or SVG by suffix: a row of panels for each layer, a column for each head.

    `layers` and `heads` are their numbers, if not 1, 2, 3, ...; the note goes below the panels. `prompt_end` is the row
    and the column of each panel before which a line is drawn. `copy_probs` are the probabilities that the tokens of the
    rows were copied, drawn beside the last layer.
    """
    if np.ndim(weights) != 4 or np.shape(weights)[2:] != (len(rows), len(columns)) or not np.size(weights):
        raise ValueError(f"weights {np.shape(weights)} do not fit {len(rows)} rows and {len(columns)} columns")
    cells = style.finite_weights(weights)
    grid = _HeadGrid.of(cells.shape)
    width, height = grid.size
    figure, axes = style.inch_axes(width, height)
    image = _draw_panels(axes, cells, grid, prompt_end)
    left = _write_rows(axes, [style.printable(row) for row in rows], grid)
    above = _write_columns(axes, [style.printable(column) for column in columns], grid)
    for head, number in enumerate(heads or range(1, grid.heads + 1)):
        middle = grid.left(head) + grid.panel[0] / 2
        style.write(axes, (middle, -above - 0.10), f"head {number}", 8.0, QUIET, ha="center", va="bottom")
    for layer, number in enumerate(layers or range(1, grid.layers + 1)):
        middle = grid.top(layer) + grid.panel[1] / 2
        style.write(axes, (-left - 0.12, middle), f"layer {number}", 8.0, QUIET, ha="right", va="center", rotation=90)
    if copy_probs:
        draw_copy_bars(figure, copy_probs, points=grid.points, height=grid.panel[1])
    style.draw_colour_bar(figure, image, gap=0.16 + (COPY_BARS_WIDTH if copy_probs else 0.0))
    if title:
        style.write(axes, (-left, -above - 0.42), style.printable(title, longest=100, keep=" "), 10.5, INK, va="bottom")
    if note:
        style.write(axes, (0.0, height + 0.12), style.wrap_note(note, width), 8.0, QUIET, va="top")
    style.save_figure(figure, path)


def _draw_panels(
    axes: Axes, cells: NDArray[np.float64], grid: _HeadGrid, prompt_end: tuple[int, int] | None
) -> AxesImage:
    """Draw all panels on one scale; return the last of them for the colour bar."""
    highest = float(cells.max()) or 1.0
    width, height = grid.panel
    for layer, head in np.ndindex(grid.layers, grid.heads):
        x, y = grid.left(head), grid.top(layer)
        panel = (x, y, x + width, y + height)
        image = axes.imshow(
            cells[layer, head], cmap=HEAT, vmin=0.0, vmax=highest, aspect="auto", interpolation="nearest",
            extent=(x, x + width, y + height, y),
        )  # fmt: skip
        if min(grid.cell_width, grid.cell_height) > 0.12:
            down = [x + column * grid.cell_width for column in range(1, grid.columns)]
            across = [y + row * grid.cell_height for row in range(1, grid.rows)]
            _draw_lines(axes, panel, down, across, LINE, 0.4)
        if prompt_end is not None:
            row, column = y + prompt_end[0] * grid.cell_height, x + prompt_end[1] * grid.cell_width
            _draw_lines(axes, panel, [column], [row], INK, 0.7)
        axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=QUIET, linewidth=0.5, clip_on=False))
    axes.set(xlim=(0.0, grid.size[0]), ylim=(grid.size[1], 0.0))  # imshow has moved them
    return image


def _draw_lines(axes: Axes, panel: _Panel, down: list[float], across: list[float], colour: str, width: float) -> None:
    """Draw lines down at these x and across at these y of a panel."""
    left, top, right, bottom = panel
    lines = [[(x, top), (x, bottom)] for x in down] + [[(left, y), (right, y)] for y in across]
    axes.add_collection(LineCollection(lines, colors=colour, linewidths=width), autolim=False)


def _write_rows(axes: Axes, labels: list[str], grid: _HeadGrid) -> float:
    """Write the tokens left of each layer; return how far they reach."""
    step = style.label_step(grid.points, grid.cell_height)
    for layer in range(grid.layers):
        for row in range(0, grid.rows, step):
            y = grid.top(layer) + (row + 0.5) * grid.cell_height
            style.write(axes, (-_LABEL_GAP, y), labels[row], grid.points, INK, ha="right", va="center_baseline")
    return _LABEL_GAP + style.widest(labels[::step], grid.points)


def _write_columns(axes: Axes, labels: list[str], grid: _HeadGrid) -> float:
    """Write the tokens above each head, once; return how far they reach."""
    step = style.label_step(grid.points, grid.cell_width)
    rotation = style.label_rotation(labels[::step], grid.points, step * grid.cell_width)
    va, y = "bottom", -_LABEL_GAP
    if not rotation:  # flat labels share a baseline
        va, y = "baseline", -_LABEL_GAP - style.text_size("", grid.points).descent
    for head in range(grid.heads):
        for column in range(0, grid.columns, step):
            x = grid.left(head) + (column + 0.5) * grid.cell_width
            style.write(axes, (x, y), labels[column], grid.points, INK, ha="center", va=va, rotation=rotation)
    return _LABEL_GAP + (style.widest(labels[::step], grid.points) if rotation else grid.points / 72)
