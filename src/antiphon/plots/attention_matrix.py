"""Attention as a picture: a row for every target token, a column for every source token."""
# T target steps, S source steps

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from antiphon.plots.style import (
    ACCENT,
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

__all__ = ["ROOM", "draw_attention", "draw_copied"]

# How probable it is that each token of an answer was copied: bars beside the rows of a picture.

_GAP, _WIDE = 0.12, 0.45  # inches
ROOM = _GAP + _WIDE + 0.40  # with the numbers behind the bars


def draw_copied(figure: Figure, font: Font, shares: list[float], *, points: float, height: float) -> None:
    """A bar from 0 to 1 for each of the lowest rows of the figure, right of it; they are so many inches high."""
    across, down = figure.get_size_inches()
    axes = figure.add_axes((1.0 + _GAP / across, 0.0, _WIDE / across, height / down))
    axes.set(xlim=(0.0, 1.0), ylim=(len(shares) - 0.5, -0.5), xticks=[], yticks=[])
    axes.barh(range(len(shares)), shares, height=0.6, color=ACCENT)
    small = font.sized(min(points, 7.5))
    every = stride(points, height / len(shares))
    for row, share in enumerate(shares):
        if row % every == 0:
            axes.text(1.08, row, f"{share:.2f}", fontproperties=small, color=QUIET, va="center", clip_on=False)
    axes.text(0.0, -0.65, "copied", fontproperties=small, color=QUIET, va="bottom", clip_on=False)
    for spine in axes.spines.values():
        spine.set_color(LINE)


_CELL = 0.30  # inches: a letter of nine points with air around it
_LONGEST_SIDE = 24.0  # inches; more tokens than fit get smaller cells, and not every one a label
_POINTS = 9.0


@dataclass(frozen=True)
class _Size:
    """How large the cells together are, in inches."""

    across: float
    down: float

    @classmethod
    def of(cls, T: int, S: int) -> _Size:
        return cls(across=min(S * _CELL, _LONGEST_SIDE), down=min(T * _CELL, _LONGEST_SIDE))


def draw_attention(
    weights: NDArray[Any],
    source: list[str],
    target: list[str],
    path: Path,
    title: str = "",
    *,
    note: str = "",
    part: tuple[int, int] | None = None,
    copied: list[float] | None = None,
) -> None:
    """Write a_ij, the weight of source token j when target token i was written, as PNG or SVG by suffix.

    The note goes below; `part` draws a line after so many rows and one after so many columns; `copied` are the
    probabilities that the target tokens were copied, drawn beside them.
    """
    if np.shape(weights) != (len(target), len(source)):
        raise ValueError(f"weights {np.shape(weights)} do not fit {len(target)} target and {len(source)} source tokens")
    target, source = target or ["(nothing)"], source or ["(nothing)"]
    cells = np.zeros((len(target), len(source)))
    if np.size(weights):
        cells[:] = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    size = _Size.of(len(target), len(source))
    font = choose_font([*source, *target, title, note])
    figure = Figure(figsize=(size.across, size.down), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))  # labels lie outside; saving cuts tightly around them
    highest = float(cells.max()) or 1.0
    image = axes.imshow(cells, cmap=HEAT, vmin=0.0, vmax=highest, aspect="auto", interpolation="nearest")
    _write_labels(axes, font, source, target, size)
    _draw_grid(axes, cells, size)
    if part is not None:
        axes.axhline(part[0] - 0.5, color=INK, linewidth=0.8)
        axes.axvline(part[1] - 0.5, color=INK, linewidth=0.8)
    if copied:
        draw_copied(figure, font, copied, points=_POINTS, height=size.down)
    high, beside = min(size.down, 1.5) / size.down, 0.12 + (ROOM if copied else 0.0)
    draw_scale(figure, image, font, (1.0 + beside / size.across, 1.0 - high, 0.10 / size.across, high))
    if title:
        _write_title(axes, font, title)
    if note:
        _write_note(axes, font, note, size)
    save_figure(figure, path)


def _write_labels(axes: Axes, font: Font, source: list[str], target: list[str], size: _Size) -> None:
    """Source above, target at the left."""
    columns, rows = [font.writable(token) for token in source], [font.writable(token) for token in target]
    every_column, every_row = stride(_POINTS, size.across / len(columns)), stride(_POINTS, size.down / len(rows))
    at_columns, at_rows = range(0, len(columns), every_column), range(0, len(rows), every_row)
    axes.xaxis.tick_top()
    axes.set_xticks(list(at_columns))
    axes.set_yticks(list(at_rows))
    small = font.sized(_POINTS)
    axes.set_xticklabels([columns[i] for i in at_columns], fontproperties=small)
    axes.set_yticklabels([rows[i] for i in at_rows], fontproperties=small)
    room = every_column * size.across / len(columns)
    turned = Ruler(font, _POINTS).turned((columns[i] for i in at_columns), room)
    for text in axes.get_xticklabels():
        text.set_rotation(turned)
    for text in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        text.set_parse_math(False)  # a dollar sign is a dollar sign
        text.set_color(INK)
    axes.tick_params(length=0, pad=4)


def _draw_grid(axes: Axes, cells: NDArray[np.float64], size: _Size) -> None:
    """Thin lines between cells, for the eye to follow; none once they would cover the cells."""
    T, S = cells.shape
    for spine in axes.spines.values():
        spine.set_color(QUIET)
        spine.set_linewidth(0.6)
    if min(size.across / S, size.down / T) > 0.15:
        axes.vlines(np.arange(S - 1) + 0.5, -0.5, T - 0.5, color=LINE, linewidth=0.5)
        axes.hlines(np.arange(T - 1) + 0.5, -0.5, S - 0.5, color=LINE, linewidth=0.5)


def _write_title(axes: Axes, font: Font, title: str) -> None:
    text = axes.set_title(font.writable(title, longest=100, keep=" "), loc="left", pad=10, color=INK)
    text.set_fontproperties(font.sized(10.5))
    text.set_parse_math(False)


def _write_note(axes: Axes, font: Font, note: str, size: _Size) -> None:
    lines = note_lines(font, 8.0, note, size.across)
    axes.text(
        0.0, -0.12 / size.down, lines, transform=axes.transAxes, color=QUIET, ha="left", va="top",
        fontproperties=font.sized(8.0), parse_math=False,
    )  # fmt: skip
