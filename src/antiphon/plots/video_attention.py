"""Attention over a video: its frames in a row, and below them a strip for each word."""
# T words, F frames, H x W pixels; all lengths in inches

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from antiphon.plots import style
from antiphon.plots.style import HEAT, INK, LINE, QUIET

__all__ = ["draw_video_attention"]

_FRAME = 0.8  # width of a frame
_WIDEST = 16.0  # of a longer video only every n-th frame is shown
_NARROWEST = 0.5  # of a frame that is shown
_STRIP = 0.28  # height of a word
_TALLEST = 150.0
_GAP = 0.10
_POINTS = 9.0


def draw_video_attention(
    frames: NDArray[Any],
    weights: NDArray[Any],
    words: list[str],
    path: Path,
    title: str = "",
    *,
    highest: float | None = None,
) -> None:
    """Write a_tf, the weight of frame f for word t, as PNG or SVG by suffix.

    The frames [F, H, W] or [F, H, W, 3] are from 0 to 1, the weights are [T, F]. The scale ends at
    `highest`, or at the highest weight.
    """
    if np.ndim(frames) not in (3, 4) or 0 in np.shape(frames) or np.shape(frames)[3:] not in ((), (3,)):
        raise ValueError(f"frames {np.shape(frames)} are not [F, H, W] or [F, H, W, 3]")
    if np.shape(weights) != (len(words), len(frames)):
        raise ValueError(f"weights {np.shape(weights)} do not fit {len(words)} words and {len(frames)} frames")
    cell = min(_FRAME, _WIDEST / len(frames))
    every = max(1, math.ceil(_NARROWEST / cell))
    thumbnail = every * cell * np.shape(frames)[1] / np.shape(frames)[2]
    strip = min(_STRIP, _TALLEST / max(1, len(words)))
    width, height = cell * len(frames), thumbnail + _GAP + strip * len(words)
    figure, axes = style.inch_axes(width, height)
    _draw_thumbnails(axes, np.asarray(frames, dtype=np.float64), cell, every)
    if words:
        image = _draw_strips(axes, style.finite_weights(weights), words, (width, thumbnail + _GAP, height), highest)
        style.draw_colour_bar(figure, image, top=min(1.5 / height, 1.0))
    axes.set(xlim=(0.0, width), ylim=(height, 0.0))  # imshow has moved them
    if title:
        style.write(axes, (0.0, -0.32), style.printable(title, longest=100, keep=" "), 10.5, INK)
    style.save_figure(figure, path)


def _draw_thumbnails(axes: Axes, frames: NDArray[np.float64], cell: float, every: int) -> None:
    """Draw every n-th frame, n cells wide, and its number above."""
    width = every * cell
    height = width * frames.shape[1] / frames.shape[2]
    for f in range(0, len(frames) - every + 1, every):
        x = f * cell
        axes.imshow(
            np.clip(np.nan_to_num(frames[f]), 0.0, 1.0), cmap="gray", vmin=0.0, vmax=1.0, aspect="auto",
            interpolation="bilinear", extent=(x + 0.02, x + width - 0.02, height, 0.0),
        )  # fmt: skip
        style.write(axes, (x + 0.03, -0.05), str(f + 1), 7.5, QUIET)


def _draw_strips(
    axes: Axes,
    weights: NDArray[np.float64],
    words: list[str],
    place: tuple[float, float, float],
    highest: float | None,
) -> AxesImage:
    """Draw a strip for each word, all on one scale; `place` is the width, the top and the bottom."""
    width, top, bottom = place
    T, F = weights.shape
    strip, cell = (bottom - top) / T, width / F
    end = highest or float(weights.max()) or 1.0
    image = axes.imshow(
        weights, cmap=HEAT, vmin=0.0, vmax=end, aspect="auto", interpolation="nearest",
        extent=(0.0, width, bottom, top),
    )  # fmt: skip
    lines = [[(0.0, top + t * strip), (width, top + t * strip)] for t in range(1, T)]
    if cell > 0.12:
        lines += [[(f * cell, top), (f * cell, bottom)] for f in range(1, F)]
    axes.add_collection(LineCollection(lines, colors=LINE, linewidths=0.5), autolim=False)
    axes.add_patch(
        Rectangle((0.0, top), width, bottom - top, fill=False, edgecolor=QUIET, linewidth=0.6, clip_on=False)
    )
    for t in range(0, T, style.label_step(_POINTS, strip)):
        middle = top + (t + 0.5) * strip
        style.write(axes, (-0.08, middle), style.printable(words[t]), _POINTS, INK, ha="right", va="center_baseline")
    return image
