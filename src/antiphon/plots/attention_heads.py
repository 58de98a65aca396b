"""Attention of every layer and head: a small picture for each, all on one scale."""
# L layers, N heads, T rows, S columns; all lengths in inches

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from antiphon.plots.attention_matrix import ROOM, draw_copied
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

__all__ = ["draw_heads"]

_USUAL = 11.0  # what the panels of a row aim at together
_LONGEST = 24.0  # more tokens than fit get smaller cells, and not every one a label
_SMALLEST_CELL, _LARGEST_CELL = 0.13, 0.26
_SMALLEST_PANEL = 0.55  # "head 12" fits above it
_GAP = 0.16
_AIR = 0.06  # between a label and what it belongs to


@dataclass(frozen=True)
class _Layout:
    """Where the panels are. The origin is the upper left corner of the first one."""

    layers: int
    heads: int
    rows: int
    columns: int
    across: float  # of one cell
    down: float

    @classmethod
    def of(cls, shape: tuple[int, int, int, int]) -> _Layout:
        L, N, T, S = shape
        wished = float(np.clip(_USUAL / max(N * S, L * T), _SMALLEST_CELL, _LARGEST_CELL))
        across = min(max(wished, _SMALLEST_PANEL / S), (_LONGEST - (N - 1) * _GAP) / (N * S))
        down = min(max(wished, _SMALLEST_PANEL / T), (_LONGEST - (L - 1) * _GAP) / (L * T))
        return cls(L, N, T, S, across, down)

    @property
    def width(self) -> float:
        return self.left(self.heads) - _GAP

    @property
    def height(self) -> float:
        return self.top(self.layers) - _GAP

    @property
    def points(self) -> float:
        """How large the tokens are written."""
        return float(np.clip(72 * 0.62 * min(self.across, self.down), 6.0, 9.0))

    def left(self, head: int) -> float:
        return head * (self.columns * self.across + _GAP)

    def top(self, layer: int) -> float:
        return layer * (self.rows * self.down + _GAP)


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
    part: tuple[int, int] | None = None,
    copied: list[float] | None = None,
) -> None:
    """Write weights [L, N, T, S] as PNG or SVG by suffix: a row of panels for each layer, a column for each head.

    `layers` and `heads` are their numbers, if not 1, 2, 3, ...; the note goes below the panels. `part` draws a line
    after so many rows and one after so many columns of each. `copied` are the probabilities that the tokens of the rows
    were copied, drawn beside the last layer.
    """
    if np.ndim(weights) != 4 or np.shape(weights)[2:] != (len(rows), len(columns)) or not np.size(weights):
        raise ValueError(f"weights {np.shape(weights)} do not fit {len(rows)} rows and {len(columns)} columns")
    cells = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    layout = _Layout.of(cells.shape)
    font = choose_font([*rows, *columns, title, note])
    figure = Figure(figsize=(layout.width, layout.height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))  # in inches; what lies outside is kept when saving
    axes.set(xlim=(0.0, layout.width), ylim=(layout.height, 0.0), autoscale_on=False)
    axes.set_axis_off()
    image = _draw_panels(axes, cells, layout, part)
    left = _write_rows(axes, [font.writable(row) for row in rows], layout, font)
    above = _write_columns(axes, [font.writable(column) for column in columns], layout, font)
    names = layers or list(range(1, layout.layers + 1)), heads or list(range(1, layout.heads + 1))
    _name_panels(axes, layout, font, names, left=left, above=above)
    if copied:
        draw_copied(figure, font, copied, points=layout.points, height=layout.rows * layout.down)
    high, beside = min(layout.height, 1.5) / layout.height, 0.16 + (ROOM if copied else 0.0)
    draw_scale(figure, image, font, (1.0 + beside / layout.width, 1.0 - high, 0.10 / layout.width, high))
    if title:
        _write(axes, font, 10.5, -left, -above - 0.42, font.writable(title, longest=100, keep=" "), INK, "left")
    if note:
        lines = note_lines(font, 8.0, note, layout.width)
        _write(axes, font, 8.0, 0.0, layout.height + 0.12, lines, QUIET, "left", "top")
    save_figure(figure, path)


def _draw_panels(axes: Axes, cells: NDArray[np.float64], layout: _Layout, part: tuple[int, int] | None) -> AxesImage:
    """All on one scale; the last of them, to explain its colours."""
    highest = float(cells.max()) or 1.0
    width, height = layout.columns * layout.across, layout.rows * layout.down
    for layer, head in np.ndindex(layout.layers, layout.heads):
        x, y = layout.left(head), layout.top(layer)
        image = axes.imshow(
            cells[layer, head], cmap=HEAT, vmin=0.0, vmax=highest, aspect="auto", interpolation="nearest",
            extent=(x, x + width, y + height, y),
        )  # fmt: skip
        if min(layout.across, layout.down) > 0.12:
            down = [[(x + i * layout.across, y), (x + i * layout.across, y + height)] for i in range(1, layout.columns)]
            across = [[(x, y + i * layout.down), (x + width, y + i * layout.down)] for i in range(1, layout.rows)]
            axes.add_collection(LineCollection([*down, *across], colors=LINE, linewidths=0.4), autolim=False)
        if part is not None:
            row, column = y + part[0] * layout.down, x + part[1] * layout.across
            lines = [[(x, row), (x + width, row)], [(column, y), (column, y + height)]]
            axes.add_collection(LineCollection(lines, colors=INK, linewidths=0.7), autolim=False)
        axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=QUIET, linewidth=0.5, clip_on=False))
    axes.set(xlim=(0.0, layout.width), ylim=(layout.height, 0.0))  # imshow has moved them
    return image


def _write_rows(axes: Axes, labels: list[str], layout: _Layout, font: Font) -> float:
    """The tokens left of each layer; how far they reach."""
    every = stride(layout.points, layout.down)
    for layer, row in np.ndindex(layout.layers, layout.rows):
        if row % every == 0:
            y = layout.top(layer) + (row + 0.5) * layout.down
            _write(axes, font, layout.points, -_AIR, y, labels[row], INK, "right", "center_baseline")
    return _AIR + Ruler(font, layout.points).widest(labels[::every])


def _write_columns(axes: Axes, labels: list[str], layout: _Layout, font: Font) -> float:
    """The tokens above each head, once; how far they reach."""
    every = stride(layout.points, layout.across)
    ruler = Ruler(font, layout.points)
    shown = range(0, layout.columns, every)
    turned = ruler.turned((labels[column] for column in shown), every * layout.across)
    low = ruler.size("").below  # flat labels share a baseline
    for head in range(layout.heads):
        for column in shown:
            x = layout.left(head) + (column + 0.5) * layout.across
            if turned:
                _write(axes, font, layout.points, x, -_AIR, labels[column], INK, "center", "bottom", turned)
            else:
                _write(axes, font, layout.points, x, -_AIR - low, labels[column], INK, "center", "baseline")
    return _AIR + (ruler.widest(labels[column] for column in shown) if turned else layout.points / 72)


def _name_panels(
    axes: Axes, layout: _Layout, font: Font, names: tuple[list[int], list[int]], *, left: float, above: float
) -> None:
    for head, number in enumerate(names[1]):
        x = layout.left(head) + layout.columns * layout.across / 2
        _write(axes, font, 8.0, x, -above - 0.10, f"head {number}", QUIET, "center", "bottom")
    for layer, number in enumerate(names[0]):
        y = layout.top(layer) + layout.rows * layout.down / 2
        _write(axes, font, 8.0, -left - 0.12, y, f"layer {number}", QUIET, "right", "center", 90)


def _write(
    axes: Axes,
    font: Font,
    points: float,
    x: float,
    y: float,
    text: str,
    colour: str,
    across: str,
    down: str = "bottom",
    turned: float = 0,
) -> None:
    axes.text(
        x, y, text, color=colour, ha=across, va=down, rotation=turned, fontproperties=font.sized(points),
        parse_math=False,
    )  # fmt: skip
