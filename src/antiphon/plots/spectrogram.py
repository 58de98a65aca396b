"""Attention over sound or vectors: a spectrogram, and below it the attention of each word over time."""
# S steps, D width of a vector, T target steps, S' steps after the front end; all lengths in inches

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from antiphon.data.augment import standardise
from antiphon.plots import style
from antiphon.plots.style import HEAT, LINE, QUIET

__all__ = ["draw_spectrogram"]

_ROW = 0.30  # height of a word
_LONGEST_SIDE = 24.0
_POINTS = 9.0
_GAP = 0.12  # between the two parts
_SPREAD = 2.5  # standard deviations from grey to white, and to black
_TICKS = MaxNLocator(8, steps=[1, 2, 5, 10])


def draw_spectrogram(
    spectrum: NDArray[Any],
    weights: NDArray[Any],
    words: list[str],
    path: Path,
    title: str = "",
    *,
    factor: int,
    seconds: float | None = None,
    highest: float | None = None,
) -> None:
    """Write the steps [S, D] above a_ij [T, S'], as PNG or SVG by suffix.

    Each of the S' vectors stands for `factor` steps; `seconds` is the length of a step of sound, whose low bands are
    drawn below. Without seconds the steps are numbered from 1, and value 1 is above. The scale ends at `highest`, or at
    the highest weight.
    """
    S, D = np.shape(spectrum)
    if np.shape(weights) != (len(words), -(-S // factor)):
        raise ValueError(f"weights {np.shape(weights)} do not fit {len(words)} words and {S} steps by {factor}")
    words = words or ["(nothing)"]
    cells = style.finite_weights(weights) if np.size(weights) else np.zeros((len(words), -(-S // factor)))
    width, above = float(np.clip(S * 0.04, 5.0, 12.0)), float(np.clip(D * 0.06, 0.5, 1.8))
    below = min(len(words) * _ROW, _LONGEST_SIDE)
    height = above + _GAP + below
    figure = Figure(figsize=(width, height), facecolor="white")
    upper = figure.add_axes((0.0, 1 - above / height, 1.0, above / height))
    lower = figure.add_axes((0.0, 0.0, 1.0, below / height), sharex=upper)
    _draw_steps(upper, spectrum, sound=seconds is not None)
    image = _draw_weights(lower, cells, factor, highest or float(cells.max()) or 1.0)
    style.draw_colour_bar(figure, image, top=below / height, room=below / height)
    step = style.label_step(_POINTS, below / len(words))
    style.label_ticks(lower.yaxis, [style.printable(word) for word in words], step, _POINTS)
    _write_times(upper, lower, S, seconds)
    if title:
        style.write_title(upper, title)
    style.save_figure(figure, path)


def _draw_steps(axes: Axes, spectrum: NDArray[Any], *, sound: bool) -> None:
    """Draw each value relative to its own mean, so that small values show beside large ones."""
    S, D = spectrum.shape
    axes.imshow(
        standardise(spectrum).T, cmap="gray_r", vmin=-_SPREAD, vmax=_SPREAD, aspect="auto", interpolation="nearest",
        origin="lower" if sound else "upper", extent=(0, S, 0, D) if sound else (0, S, D, 0),
    )  # fmt: skip
    ends = [1, D] if D > 1 else [1]
    axes.set_yticks([end - 0.5 for end in ends], map(str, ends), fontproperties=style.font(7.5), color=QUIET)
    axes.set_ylabel("mel band" if sound else "value", color=QUIET, fontproperties=style.font(8.5))
    style.draw_frame(axes)


def _draw_weights(axes: Axes, cells: NDArray[np.float64], factor: int, highest: float) -> AxesImage:
    """Draw a row for each word; a last cell that reaches beyond the last step is cut off."""
    T, steps = cells.shape
    image = axes.imshow(
        cells, cmap=HEAT, vmin=0.0, vmax=highest, aspect="auto", interpolation="nearest",
        extent=(0, steps * factor, T - 0.5, -0.5),
    )  # fmt: skip
    for row in range(1, T):
        axes.axhline(row - 0.5, color=LINE, linewidth=0.5)
    style.draw_frame(axes)
    return image


def _write_times(upper: Axes, lower: Axes, S: int, seconds: float | None) -> None:
    """Write one axis for both parts, below them."""
    if seconds is None:
        numbers = [int(step) for step in _TICKS.tick_values(1, S) if 1 <= step <= S and step == int(step)]
        places, names = [number - 0.5 for number in numbers], [str(number) for number in numbers]
    else:
        times = [time for time in _TICKS.tick_values(0, S * seconds) if 0 <= time <= S * seconds]
        places, names = [time / seconds for time in times], [f"{time:.4g}" for time in times]
    lower.set_xticks(places, names, fontproperties=style.font(7.5), color=QUIET)
    lower.set_xlabel("step" if seconds is None else "seconds", color=QUIET, fontproperties=style.font(8.5))
    lower.tick_params(axis="x", length=3, color=QUIET)
    upper.tick_params(axis="x", labelbottom=False)
    upper.set_xlim(0, S)
