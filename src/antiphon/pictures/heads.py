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
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from antiphon.pictures.canvas import Font, Ruler, choose_font, save_figure
from antiphon.pictures.palette import HEAT, INK, LINE, QUIET

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
) -> None:
    """Write weights [L, N, T, S] as PNG or SVG by suffix: a row of panels for each layer, a column for each head.

    `layers` and `heads` are their numbers, if not 1, 2, 3, ...; the note goes below the panels.
    """
    if np.ndim(weights) != 4 or np.shape(weights)[2:] != (len(rows), len(columns)) or not np.size(weights):
        raise ValueError(f"weights {np.shape(weights)} do not fit {len(rows)} rows and {len(columns)} columns")
    cells = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    layout = _Layout.of(cells.shape)
    font = choose_font([*rows, *columns, title])
    figure = Figure(figsize=(layout.width, layout.height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))  # in inches; what lies outside is kept when saving
    axes.set(xlim=(0.0, layout.width), ylim=(layout.height, 0.0), autoscale_on=False)
    axes.set_axis_off()
    highest = float(cells.max()) or 1.0
    _draw_panels(axes, cells, layout, highest)
    left = _write_rows(axes, [font.writable(row) for row in rows], layout, font)
    above = _write_columns(axes, [font.writable(column) for column in columns], layout, font)
    names = layers or list(range(1, layout.layers + 1)), heads or list(range(1, layout.heads + 1))
    _name_panels(axes, layout, font, names, left=left, above=above)
    _draw_scale(axes, layout, font, highest)
    if title:
        _write(axes, font, 10.5, -left, -above - 0.42, font.writable(title, longest=100, keep=" "), INK, "left")
    if note:
        _write(
            axes, font, 8.0, 0.0, layout.height + 0.12, font.writable(note, longest=200, keep=" "), QUIET, "left", "top"
        )
    save_figure(figure, path)


def _draw_panels(axes: Axes, cells: NDArray[np.float64], layout: _Layout, highest: float) -> None:
    width, height = layout.columns * layout.across, layout.rows * layout.down
    for layer, head in np.ndindex(layout.layers, layout.heads):
        x, y = layout.left(head), layout.top(layer)
        axes.imshow(
            cells[layer, head], cmap=HEAT, vmin=0.0, vmax=highest, aspect="auto", interpolation="nearest",
            extent=(x, x + width, y + height, y),
        )  # fmt: skip
        if min(layout.across, layout.down) > 0.12:
            down = [[(x + i * layout.across, y), (x + i * layout.across, y + height)] for i in range(1, layout.columns)]
            across = [[(x, y + i * layout.down), (x + width, y + i * layout.down)] for i in range(1, layout.rows)]
            axes.add_collection(LineCollection([*down, *across], colors=LINE, linewidths=0.4), autolim=False)
        axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=QUIET, linewidth=0.5, clip_on=False))
    axes.set(xlim=(0.0, layout.width), ylim=(layout.height, 0.0))  # imshow has moved them


def _write_rows(axes: Axes, labels: list[str], layout: _Layout, font: Font) -> float:
    """The tokens left of each layer; how far they reach."""
    every = _stride(layout.points, layout.down)
    for layer, row in np.ndindex(layout.layers, layout.rows):
        if row % every == 0:
            y = layout.top(layer) + (row + 0.5) * layout.down
            _write(axes, font, layout.points, -_AIR, y, labels[row], INK, "right", "center_baseline")
    return _AIR + Ruler(font, layout.points).widest(labels[::every])


def _write_columns(axes: Axes, labels: list[str], layout: _Layout, font: Font) -> float:
    """The tokens above each head, once; long ones stand on their heads. How far they reach."""
    every = _stride(layout.points, layout.across)
    ruler = Ruler(font, layout.points)
    shown = range(0, layout.columns, every)
    flat = {column: ruler.size(labels[column])[0] < 0.95 * every * layout.across for column in shown}
    for head in range(layout.heads):
        for column in shown:
            x, turned = layout.left(head) + (column + 0.5) * layout.across, 0 if flat[column] else 90
            _write(axes, font, layout.points, x, -_AIR, labels[column], INK, "center", "bottom", turned)
    return _AIR + max(layout.points / 72, ruler.widest(labels[column] for column in shown if not flat[column]))


def _stride(points: float, inches: float) -> int:
    """Every how manieth token gets a label, so that labels never touch."""
    return max(1, int(np.ceil(1.25 * points / 72 / inches - 1e-9)))


def _name_panels(
    axes: Axes, layout: _Layout, font: Font, names: tuple[list[int], list[int]], *, left: float, above: float
) -> None:
    for head, number in enumerate(names[1]):
        x = layout.left(head) + layout.columns * layout.across / 2
        _write(axes, font, 8.0, x, -above - 0.10, f"head {number}", QUIET, "center", "bottom")
    for layer, number in enumerate(names[0]):
        y = layout.top(layer) + layout.rows * layout.down / 2
        _write(axes, font, 8.0, -left - 0.12, y, f"layer {number}", QUIET, "right", "center", 90)


def _draw_scale(axes: Axes, layout: _Layout, font: Font, highest: float) -> None:
    """A narrow bar at the right, at most an inch and a half high."""
    x, high = layout.width + 0.16, min(layout.height, 1.5)
    bar = np.linspace(1.0, 0.0, 128)[:, None]
    image = axes.imshow(bar, cmap=HEAT, vmin=0.0, vmax=1.0, aspect="auto", extent=(x, x + 0.10, high, 0.0))
    image.set_clip_on(False)
    axes.set(xlim=(0.0, layout.width), ylim=(layout.height, 0.0))
    axes.add_patch(Rectangle((x, 0.0), 0.10, high, fill=False, edgecolor=QUIET, linewidth=0.4, clip_on=False))
    most = f"{highest:.2f}".rstrip("0").rstrip(".")
    for y, label in ((0.0, most), (high, "0")):
        _write(axes, font, 7.5, x + 0.14, y, label, QUIET, "left", "center_baseline")


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
