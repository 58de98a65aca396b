"""Attention over time: the picture once for each word, with a heat layer where the network looked."""
# H, W pixels, n x m cells
# T words, H, W pixels, n x m cells

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from antiphon.plots.style import INK, QUIET, Font, Ruler, choose_font, note_lines, save_figure

__all__ = ["GLOW", "draw_cells", "heated", "inches", "known_weights", "write"]

# A plane in inches to draw on, and a heat layer over a picture.

GLOW = "#e8590c"  # the layer; no blue, which pictures of the sky have enough of
_STRONGEST = 0.8  # share of the layer's colour where the weight is highest
_BLUR = 0.5  # of a cell: so far a weight spreads
_LUMINANCE = (0.299, 0.587, 0.114)


def inches(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure and its plane: x from the left, y from the top; what lies outside is kept when saving."""
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0.0, width), ylim=(height, 0.0), autoscale_on=False)
    axes.set_axis_off()
    return figure, axes


def known_weights(weights: NDArray[Any]) -> NDArray[np.float64]:
    """What is not a number is no weight."""
    return np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def heated(image: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The picture [H, W] or [H, W, 3] in grey, under a layer that is strongest where the weights [n, m] are highest."""
    shades = np.clip(np.nan_to_num(np.asarray(image, dtype=np.float64)), 0.0, 1.0)
    grey = shades if shades.ndim == 2 else shades @ np.asarray(_LUMINANCE)
    H, W = grey.shape
    n, m = weights.shape
    layer = _spread(n, H) @ weights @ _spread(m, W).T
    layer = _STRONGEST * (layer / (layer.max() or 1.0))[..., None]
    mixed: NDArray[np.float64] = (1.0 - layer) * grey[..., None] + layer * np.asarray(to_rgb(GLOW))
    return mixed


def _spread(cells: int, pixels: int) -> NDArray[np.float64]:
    """The share of each cell in each pixel [pixels, cells]: a Gaussian around the cell's middle."""
    places = (np.arange(pixels) + 0.5) * cells / pixels - 0.5
    near = np.exp(-(((places[:, None] - np.arange(cells)) / _BLUR) ** 2) / 2)
    share: NDArray[np.float64] = near / near.sum(1, keepdims=True)
    return share


def write(
    axes: Axes,
    font: Font,
    points: float,
    at: tuple[float, float],
    text: str,
    colour: str,
    *,
    across: str = "left",
    down: str = "baseline",
) -> None:
    """A text at (x, y); a dollar sign is a dollar sign."""
    axes.text(
        *at, text, color=colour, ha=across, va=down, fontproperties=font.sized(points), parse_math=False
    )  # fmt: skip


_PANEL = 1.6  # inches: the longer side of a picture
_LINE, _LONGEST_LINE = 0.35, 12.0  # inches: the height of a line of text, unless that makes it too wide
_LONG = 3.0  # wider than so many heights, a picture is a line
_GAP, _HEAD = 0.14, 0.24  # inches: between panels; for the word above
_MARK = 0.09  # inches: for the mark below a line
_DEEPEST = 150.0  # inches; more words get smaller panels
_FIGURE = 0.36  # inches: a weight, and air before it
_POINTS = 9.0


@dataclass(frozen=True)
class _Layout:
    """Panels in rows and columns, all in inches."""

    panels: int
    columns: int
    width: float  # of a picture
    height: float
    above: float  # room for a word
    below: float  # room for a mark

    @classmethod
    def of(cls, panels: int, H: int, W: int) -> _Layout:
        if W > _LONG * H:
            size = min(_LINE, _LONGEST_LINE * H / W, max(0.05, _DEEPEST / panels - _MARK - _GAP))
            return cls(panels, 1, size * W / H, size, 0.0, _MARK)
        columns = min(panels, max(4, math.ceil(math.sqrt(1.6 * panels))))  # wider than high, as a page on a screen
        size = _PANEL * min(1.0, _DEEPEST / (math.ceil(panels / columns) * (_PANEL + _HEAD + _GAP)))
        return cls(panels, columns, size * min(1.0, W / H), size * min(1.0, H / W), _HEAD, 0.0)

    @property
    def line(self) -> bool:
        return self.below > 0.0

    @property
    def across(self) -> float:
        return self.columns * (self.width + _GAP) - _GAP

    @property
    def down(self) -> float:
        return math.ceil(self.panels / self.columns) * self._step - _GAP

    def at(self, panel: int) -> tuple[float, float]:
        """The upper left corner of a picture."""
        row, column = divmod(panel, self.columns)
        return column * (self.width + _GAP), row * self._step + self.above

    @property
    def _step(self) -> float:
        return self.above + self.height + self.below + _GAP


def draw_cells(
    image: NDArray[Any], weights: NDArray[Any], words: list[str], path: Path, title: str = "", *, note: str = ""
) -> None:
    """Write a_t,ij, the weight of cell (i, j) of the picture when word t was written, as PNG or SVG by suffix.

    The image [H, W] or [H, W, 3] is from 0 to 1, the weights are [T, n, m]. The picture as it is comes first; beside
    each word stands its highest weight, at which the layer is strongest. Of a long line, a mark shows that place.
    """
    if np.ndim(weights) != 3 or len(weights) != len(words) or 0 in np.shape(weights)[1:]:
        raise ValueError(f"weights {np.shape(weights)} do not fit {len(words)} words")
    if np.ndim(image) not in (2, 3) or 0 in np.shape(image) or np.shape(image)[2:] not in ((), (3,)):
        raise ValueError(f"an image {np.shape(image)} is not [H, W] or [H, W, 3]")
    H, W = np.shape(image)[:2]
    layout, cells = _Layout.of(len(words) + 1, H, W), known_weights(weights)
    font = choose_font([*words, title, note])
    ruler = Ruler(font, _POINTS)
    figure, axes = inches(layout.across, layout.down)
    _draw_picture(axes, np.asarray(image, dtype=np.float64), layout, 0)
    for panel, (word, looked) in enumerate(zip(words, cells, strict=True), start=1):
        _draw_picture(axes, heated(image, looked), layout, panel)
        _name(axes, font, ruler, layout, panel, word, float(looked.max()))
        if layout.line:
            _mark(axes, layout, panel, looked)
    axes.set(xlim=(0.0, layout.across), ylim=(layout.down, 0.0))  # imshow has moved them
    if title:
        write(axes, font, 10.5, (0.0, -0.16), font.writable(title, longest=100, keep=" "), INK)
    if note:
        lines = note_lines(font, 8.0, note, layout.across)
        write(axes, font, 8.0, (0.0, layout.down + 0.12), lines, QUIET, down="top")
    save_figure(figure, path)


def _draw_picture(axes: Axes, image: NDArray[np.float64], layout: _Layout, panel: int) -> None:
    (x, y), width, height = layout.at(panel), layout.width, layout.height
    axes.imshow(
        np.clip(image, 0.0, 1.0), cmap="gray", vmin=0.0, vmax=1.0, aspect="auto", interpolation="bilinear",
        extent=(x, x + width, y + height, y),
    )  # fmt: skip
    axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=QUIET, linewidth=0.5, clip_on=False))


def _name(axes: Axes, font: Font, ruler: Ruler, layout: _Layout, panel: int, word: str, highest: float) -> None:
    """The word and its highest weight: above a picture, left of a line."""
    (x, y), figure = layout.at(panel), f"{highest:.{2 if highest >= 0.01 else 3}f}"
    if layout.line:
        middle = y + layout.height / 2
        write(axes, font, 7.0, (x - 0.10, middle), figure, QUIET, across="right", down="center_baseline")
        write(
            axes,
            font,
            _POINTS,
            (x - 0.10 - _FIGURE, middle),
            font.writable(word),
            INK,
            across="right",
            down="center_baseline",
        )
        return
    write(axes, font, _POINTS, (x, y - 0.07), _cut(font, ruler, word, layout.width - _FIGURE), INK)
    write(axes, font, 7.0, (x + layout.width, y - 0.07), figure, QUIET, across="right")


def _cut(font: Font, ruler: Ruler, word: str, room: float) -> str:
    """The word, or as many letters of it as there is room for."""
    longest = 24
    while longest > 2 and ruler.size(font.writable(word, longest)).width > room:
        longest -= 1
    return font.writable(word, longest)


def _mark(axes: Axes, layout: _Layout, panel: int, looked: NDArray[np.float64]) -> None:
    """A triangle below the column that has the most weight."""
    x, y = layout.at(panel)
    weight = looked.sum(0)
    middle = x + (float(weight.argmax()) + 0.5) / len(weight) * layout.width
    axes.fill(
        [middle - 0.05, middle, middle + 0.05],
        [y + layout.height + _MARK, y + layout.height + 0.015, y + layout.height + _MARK],
        color=GLOW, linewidth=0.0, clip_on=False,
    )  # fmt: skip
