"""A plane in inches to draw on, and a heat layer over a picture."""
# H, W pixels, n x m cells

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from antiphon.pictures.canvas import Font

__all__ = ["GLOW", "heated", "inches", "known_weights", "write"]

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
