"""Attention over an image: the image once for each word, with heat over the attended cells; of two runs together."""
# T words, H x W pixels, n x m cells; all lengths in inches

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from antiphon.plots import style
from antiphon.plots.style import INK, QUIET

__all__ = ["attention_scale", "draw_image_attention", "draw_images_beside", "overlay_heat"]

_GLOW = "#e8590c"  # the heat layer; blue would be lost in pictures of the sky
_STRONGEST = 0.95  # share of the heat's colour where the weight is at the end of the scale
_BLUR = 0.4  # standard deviation of the blur, in cells
_LEAST_PEAK = 8.0  # times the mean: the scale ends there or higher, so that even weights look even
_NEARLY_UNIFORM = 3.0  # times the mean: a highest weight below that is no finding
_NAMED = 6  # words with nearly uniform attention
_SURROUNDINGS = "a cell also knows its surroundings (receptive field)"
_LUMINANCE = (0.299, 0.587, 0.114)
_PANEL = 1.6  # the longer side of an image
_LINE_HEIGHT, _WIDEST_LINE = 0.35, 12.0  # of an image of a line of text
_LINE_ASPECT = 3.0  # an image with at least this width / height is a line of text
_GAP, _CAPTION = 0.14, 0.24  # between panels; for the word above
_GROUP = 0.12  # more between rows that show the same words of several runs
_MARK = 0.09  # for the mark below a line
_TALLEST = 150.0  # more words get smaller panels
_NUMBER_WIDTH = 0.36  # of a weight, with space before it
_POINTS = 9.0


def attention_scale(weights: NDArray[Any]) -> float:
    """The end of the colour scale for weights [T, S] or [T, n, m]: the highest of them, or 8 times the mean."""
    cells = style.finite_weights(weights)
    return min(1.0, max(float(cells.max()), _LEAST_PEAK * float(cells.mean()))) or 1.0 if cells.size else 1.0


def overlay_heat(image: NDArray[Any], weights: NDArray[np.float64], highest: float) -> NDArray[np.float64]:
    """The image [H, W] or [H, W, 3] in grey, under heat that is strongest where a weight [n, m] is `highest`."""
    shades = np.clip(np.nan_to_num(np.asarray(image, dtype=np.float64)), 0.0, 1.0)
    grey = shades if shades.ndim == 2 else shades @ np.asarray(_LUMINANCE)
    H, W = grey.shape
    n, m = weights.shape
    heat = _blur(n, H) @ weights @ _blur(m, W).T
    heat = _STRONGEST * np.clip(heat / highest, 0.0, 1.0)[..., None]
    mixed: NDArray[np.float64] = (1.0 - heat) * grey[..., None] + heat * np.asarray(to_rgb(_GLOW))
    return mixed


def _blur(cells: int, pixels: int) -> NDArray[np.float64]:
    """The share of each cell in each pixel [pixels, cells]: a Gaussian around the middle of the cell."""
    places = (np.arange(pixels) + 0.5) * cells / pixels - 0.5
    near = np.exp(-(((places[:, None] - np.arange(cells)) / _BLUR) ** 2) / 2)
    share: NDArray[np.float64] = near / near.sum(1, keepdims=True)
    return share


@dataclass(frozen=True)
class _ImageGrid:
    """Panels in rows and columns; with several runs a row of panels has one line for each."""

    panels: int
    columns: int
    width: float  # of an image
    height: float
    above: float  # room for a word
    below: float  # room for a mark
    runs: int

    @classmethod
    def of(cls, panels: int, runs: int, H: int, W: int) -> _ImageGrid:
        if W > _LINE_ASPECT * H:
            size = min(_LINE_HEIGHT, _WIDEST_LINE * H / W, max(0.05, _TALLEST / (panels * runs) - _MARK - _GAP))
            return cls(panels, 1, size * W / H, size, 0.0, _MARK, runs)
        least = 4 if runs == 1 else 8
        columns = min(panels, max(least, math.ceil(math.sqrt(1.6 * panels * runs))))  # wider than high, as a screen
        rows = math.ceil(panels / columns) * runs
        size = _PANEL * min(1.0, _TALLEST / (rows * (_PANEL + _CAPTION + _GAP)))
        return cls(panels, columns, size * min(1.0, W / H), size * min(1.0, H / W), _CAPTION, 0.0, runs)

    @property
    def is_line(self) -> bool:
        return self.below > 0.0

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of all panels."""
        rows = math.ceil(self.panels / self.columns)
        return self.columns * (self.width + _GAP) - _GAP, rows * self._row_height - _GAP - self._between

    def corner(self, panel: int, run: int) -> tuple[float, float]:
        """The upper left corner of an image."""
        row, column = divmod(panel, self.columns)
        return column * (self.width + _GAP), row * self._row_height + run * self._line_height + self.above

    @property
    def _line_height(self) -> float:
        return self.above + self.height + self.below + _GAP

    @property
    def _between(self) -> float:
        return _GROUP if self.runs > 1 else 0.0

    @property
    def _row_height(self) -> float:
        return self.runs * self._line_height + self._between


def draw_image_attention(
    image: NDArray[Any],
    weights: NDArray[Any],
    words: list[str],
    path: Path,
    title: str = "",
    *,
    highest: float | None = None,
) -> None:
    """Write a_t,ij, the weight of cell (i, j) of the image for word t, as PNG or SVG by suffix.

    The image [H, W] or [H, W, 3] is from 0 to 1, the weights are [T, n, m]. The plain image comes first; each word
    stands beside its highest weight. All panels have one scale, which ends at `highest` (None: see `attention_scale`).
    In a line of text a mark shows the highest weight.
    """
    scale = attention_scale(weights) if highest is None else highest
    _draw_runs(image, {"": weights}, words, path, title, [scale])


def draw_images_beside(
    image: NDArray[Any], runs: dict[str, NDArray[Any]], words: list[str], path: Path, title: str = ""
) -> None:
    """Write the attention of several runs, by name, to the same image for the same words: below one another.

    Each run has its own scale.
    """
    _draw_runs(image, runs, words, path, title, [attention_scale(weights) for weights in runs.values()])


def _draw_runs(
    image: NDArray[Any],
    runs: dict[str, NDArray[Any]],
    words: list[str],
    path: Path,
    title: str,
    scales: list[float],
) -> None:
    for weights in runs.values():
        if np.ndim(weights) != 3 or len(weights) != len(words) or 0 in np.shape(weights)[1:]:
            raise ValueError(f"weights {np.shape(weights)} do not fit {len(words)} words")
    if np.ndim(image) not in (2, 3) or 0 in np.shape(image) or np.shape(image)[2:] not in ((), (3,)):
        raise ValueError(f"an image {np.shape(image)} is not [H, W] or [H, W, 3]")
    H, W = np.shape(image)[:2]
    grid = _ImageGrid.of(len(words) + 1, len(runs), H, W)
    width, height = grid.size
    figure, axes = style.inch_axes(width, height)
    for run, ((name, weights), highest) in enumerate(zip(runs.items(), scales, strict=True)):
        corner = grid.corner(0, run)
        _draw_image(axes, np.asarray(image, dtype=np.float64), grid, corner)
        _write_word(axes, grid, corner, name, "")
        _draw_words(axes, image, style.finite_weights(weights), words, grid, run, highest)
    axes.set(xlim=(0.0, width), ylim=(height, 0.0))  # imshow has moved them
    if title:
        style.write(axes, (0.0, -0.16), style.printable(title, longest=100, keep=" "), 10.5, INK)
    style.write_note(figure, _note(runs, words, scales))
    style.save_figure(figure, path)


def _draw_words(
    axes: Axes, image: NDArray[Any], weights: NDArray[np.float64], words: list[str], grid: _ImageGrid, run: int,
    highest: float,
) -> None:  # fmt: skip
    """Draw the image of one run for each word."""
    for panel, (word, cells) in enumerate(zip(words, weights, strict=True), start=1):
        corner, peak = grid.corner(panel, run), float(cells.max())
        _draw_image(axes, overlay_heat(image, cells, highest), grid, corner)
        _write_word(axes, grid, corner, word, f"{peak:.{2 if peak >= 0.01 else 3}f}")
        if grid.is_line:
            _mark_column(axes, grid, corner, cells)


def _note(runs: dict[str, NDArray[Any]], words: list[str], scales: list[float]) -> str:
    """The scale, what a cell knows, and the words whose attention is nearly uniform."""
    ends = [f"{highest:.2g}{f' ({name})' if name else ''}" for name, highest in zip(runs, scales, strict=True)]
    note = f"colour: the weight of a cell, from 0 to {', '.join(ends)}; {_SURROUNDINGS}"
    for name, weights in runs.items():
        if even := [word for word, cells in zip(words, weights, strict=True) if _is_nearly_uniform(cells)]:
            named = "every word" if len(even) == len(words) else ", ".join(even[:_NAMED])
            more = f" and {len(even) - _NAMED} more" if len(words) > len(even) > _NAMED else ""
            note += f"; nearly uniform for {named}{more}{f' ({name})' if name else ''}"
    return note


def _is_nearly_uniform(cells: NDArray[Any]) -> bool:
    """True if no weight stands out from the mean; few cells cannot have one far above it."""
    finite = style.finite_weights(cells)
    return float(finite.max()) < min(_NEARLY_UNIFORM, finite.size / 2) * float(finite.mean())


def _draw_image(axes: Axes, image: NDArray[np.float64], grid: _ImageGrid, corner: tuple[float, float]) -> None:
    (x, y), width, height = corner, grid.width, grid.height
    axes.imshow(
        np.clip(image, 0.0, 1.0), cmap="gray", vmin=0.0, vmax=1.0, aspect="auto", interpolation="bilinear",
        extent=(x, x + width, y + height, y),
    )  # fmt: skip
    axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=QUIET, linewidth=0.5, clip_on=False))


def _write_word(axes: Axes, grid: _ImageGrid, corner: tuple[float, float], word: str, number: str) -> None:
    """Write the word and its highest weight: above an image, left of a line."""
    x, y = corner
    if grid.is_line:
        x, y = x - 0.10, y + grid.height / 2
        style.write(axes, (x, y), number, 7.0, QUIET, ha="right", va="center_baseline")
        style.write(axes, (x - _NUMBER_WIDTH, y), style.printable(word), _POINTS, INK, ha="right", va="center_baseline")
    else:
        style.write(axes, (x, y - 0.07), _shorten(word, grid.width - _NUMBER_WIDTH), _POINTS, INK)
        style.write(axes, (x + grid.width, y - 0.07), number, 7.0, QUIET, ha="right")


def _shorten(word: str, room: float) -> str:
    """The word, or as many letters of it as there is room for."""
    longest = 24
    while longest > 2 and style.text_size(style.printable(word, longest), _POINTS).width > room:
        longest -= 1
    return style.printable(word, longest)


def _mark_column(axes: Axes, grid: _ImageGrid, corner: tuple[float, float], cells: NDArray[np.float64]) -> None:
    """Draw a triangle below the column with the highest weight."""
    x, y = corner
    columns = cells.sum(0)
    middle = x + (float(columns.argmax()) + 0.5) / len(columns) * grid.width
    bottom = y + grid.height
    axes.fill(
        [middle - 0.05, middle, middle + 0.05], [bottom + _MARK, bottom + 0.015, bottom + _MARK],
        color=_GLOW, linewidth=0.0, clip_on=False,
    )  # fmt: skip
