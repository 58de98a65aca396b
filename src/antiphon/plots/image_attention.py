"""Attention over an image: the image once for each word, with a heat layer over the attended cells."""
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

__all__ = ["draw_image_attention", "overlay_heat"]

_GLOW = "#e8590c"  # the heat layer; blue would be lost in pictures of the sky
_STRONGEST = 0.8  # share of the layer's colour where the weight is highest
_BLUR = 0.5  # standard deviation of the blur, in cells
_LUMINANCE = (0.299, 0.587, 0.114)
_PANEL = 1.6  # the longer side of an image
_LINE_HEIGHT, _WIDEST_LINE = 0.35, 12.0  # of an image of a line of text
_LINE_ASPECT = 3.0  # an image with at least this width / height is a line of text
_GAP, _CAPTION = 0.14, 0.24  # between panels; for the word above
_MARK = 0.09  # for the mark below a line
_TALLEST = 150.0  # more words get smaller panels
_NUMBER_WIDTH = 0.36  # of a weight, with space before it
_POINTS = 9.0


def overlay_heat(image: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The image [H, W] or [H, W, 3] in grey, under a layer that is strongest where the weights [n, m] are highest."""
    shades = np.clip(np.nan_to_num(np.asarray(image, dtype=np.float64)), 0.0, 1.0)
    grey = shades if shades.ndim == 2 else shades @ np.asarray(_LUMINANCE)
    H, W = grey.shape
    n, m = weights.shape
    layer = _blur(n, H) @ weights @ _blur(m, W).T
    layer = _STRONGEST * (layer / (layer.max() or 1.0))[..., None]
    mixed: NDArray[np.float64] = (1.0 - layer) * grey[..., None] + layer * np.asarray(to_rgb(_GLOW))
    return mixed


def _blur(cells: int, pixels: int) -> NDArray[np.float64]:
    """The share of each cell in each pixel [pixels, cells]: a Gaussian around the middle of the cell."""
    places = (np.arange(pixels) + 0.5) * cells / pixels - 0.5
    near = np.exp(-(((places[:, None] - np.arange(cells)) / _BLUR) ** 2) / 2)
    share: NDArray[np.float64] = near / near.sum(1, keepdims=True)
    return share


@dataclass(frozen=True)
class _ImageGrid:
    """Panels in rows and columns."""

    panels: int
    columns: int
    width: float  # of an image
    height: float
    above: float  # room for a word
    below: float  # room for a mark

    @classmethod
    def of(cls, panels: int, H: int, W: int) -> _ImageGrid:
        if W > _LINE_ASPECT * H:
            size = min(_LINE_HEIGHT, _WIDEST_LINE * H / W, max(0.05, _TALLEST / panels - _MARK - _GAP))
            return cls(panels, 1, size * W / H, size, 0.0, _MARK)
        columns = min(panels, max(4, math.ceil(math.sqrt(1.6 * panels))))  # wider than high, as a screen
        size = _PANEL * min(1.0, _TALLEST / (math.ceil(panels / columns) * (_PANEL + _CAPTION + _GAP)))
        return cls(panels, columns, size * min(1.0, W / H), size * min(1.0, H / W), _CAPTION, 0.0)

    @property
    def is_line(self) -> bool:
        return self.below > 0.0

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of all panels."""
        rows = math.ceil(self.panels / self.columns)
        return self.columns * (self.width + _GAP) - _GAP, rows * self._row_height - _GAP

    def corner(self, panel: int) -> tuple[float, float]:
        """The upper left corner of an image."""
        row, column = divmod(panel, self.columns)
        return column * (self.width + _GAP), row * self._row_height + self.above

    @property
    def _row_height(self) -> float:
        return self.above + self.height + self.below + _GAP


def draw_image_attention(
    image: NDArray[Any], weights: NDArray[Any], words: list[str], path: Path, title: str = ""
) -> None:
    """Write a_t,ij, the weight of cell (i, j) of the image for word t, as PNG or SVG by suffix.

    The image [H, W] or [H, W, 3] is from 0 to 1, the weights are [T, n, m]. The plain image comes first; each word
    stands beside its highest weight, at which the layer is strongest. In a line of text a mark shows that place.
    """
    if np.ndim(weights) != 3 or len(weights) != len(words) or 0 in np.shape(weights)[1:]:
        raise ValueError(f"weights {np.shape(weights)} do not fit {len(words)} words")
    if np.ndim(image) not in (2, 3) or 0 in np.shape(image) or np.shape(image)[2:] not in ((), (3,)):
        raise ValueError(f"an image {np.shape(image)} is not [H, W] or [H, W, 3]")
    H, W = np.shape(image)[:2]
    grid = _ImageGrid.of(len(words) + 1, H, W)
    width, height = grid.size
    figure, axes = style.inch_axes(width, height)
    _draw_image(axes, np.asarray(image, dtype=np.float64), grid, 0)
    for panel, (word, cells) in enumerate(zip(words, style.finite_weights(weights), strict=True), start=1):
        _draw_image(axes, overlay_heat(image, cells), grid, panel)
        _write_word(axes, grid, panel, word, float(cells.max()))
        if grid.is_line:
            _mark_column(axes, grid, panel, cells)
    axes.set(xlim=(0.0, width), ylim=(height, 0.0))  # imshow has moved them
    if title:
        style.write(axes, (0.0, -0.16), style.printable(title, longest=100, keep=" "), 10.5, INK)
    style.save_figure(figure, path)


def _draw_image(axes: Axes, image: NDArray[np.float64], grid: _ImageGrid, panel: int) -> None:
    (x, y), width, height = grid.corner(panel), grid.width, grid.height
    axes.imshow(
        np.clip(image, 0.0, 1.0), cmap="gray", vmin=0.0, vmax=1.0, aspect="auto", interpolation="bilinear",
        extent=(x, x + width, y + height, y),
    )  # fmt: skip
    axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=QUIET, linewidth=0.5, clip_on=False))


def _write_word(axes: Axes, grid: _ImageGrid, panel: int, word: str, highest: float) -> None:
    """Write the word and its highest weight: above an image, left of a line."""
    (x, y), number = grid.corner(panel), f"{highest:.{2 if highest >= 0.01 else 3}f}"
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


def _mark_column(axes: Axes, grid: _ImageGrid, panel: int, cells: NDArray[np.float64]) -> None:
    """Draw a triangle below the column with the highest weight."""
    x, y = grid.corner(panel)
    columns = cells.sum(0)
    middle = x + (float(columns.argmax()) + 0.5) / len(columns) * grid.width
    bottom = y + grid.height
    axes.fill(
        [middle - 0.05, middle, middle + 0.05], [bottom + _MARK, bottom + 0.015, bottom + _MARK],
        color=_GLOW, linewidth=0.0, clip_on=False,
    )  # fmt: skip
