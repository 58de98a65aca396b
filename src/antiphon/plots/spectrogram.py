"""Attention over time: a spectrogram, and below it where each word looked."""
# S steps, D width of a vector, T target steps, S' steps that the front leaves

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from antiphon.data.augment import standardised
from antiphon.plots.style import HEAT, INK, LINE, QUIET, Font, choose_font, draw_scale, save_figure, stride

__all__ = ["draw_spectrogram"]

_ROW = 0.30  # inches of a word
_LONGEST_SIDE = 24.0
_POINTS = 9.0
_GAP = 0.12  # between the two parts
_SPREAD = 2.5  # standard deviations from grey to white, and to black
_TICKS = MaxNLocator(8, steps=[1, 2, 5, 10])


@dataclass(frozen=True)
class _Size:
    """Of the two parts, in inches."""

    across: float
    above: float
    below: float

    @classmethod
    def of(cls, S: int, D: int, T: int) -> _Size:
        return cls(
            across=float(np.clip(S * 0.04, 5.0, 12.0)),
            above=float(np.clip(D * 0.06, 0.5, 1.8)),
            below=min(T * _ROW, _LONGEST_SIDE),
        )

    @property
    def down(self) -> float:
        return self.above + _GAP + self.below


def draw_spectrogram(
    spectrum: NDArray[Any],
    weights: NDArray[Any],
    words: list[str],
    path: Path,
    title: str = "",
    *,
    factor: int,
    seconds: float | None = None,
) -> None:
    """Write the steps [S, D] and a_ij [T, S'] above one another, as PNG or SVG by suffix.

    Vector j of the S' stands for the `factor` steps from j · factor on; `seconds` is a step of a sound, whose low bands
    are drawn below. Without seconds the steps are numbered from 1, and value 1 is above.
    """
    S, D = np.shape(spectrum)
    if np.shape(weights) != (len(words), -(-S // factor)):
        raise ValueError(f"weights {np.shape(weights)} do not fit {len(words)} words and {S} steps by {factor}")
    words = words or ["(nothing)"]
    cells = np.zeros((len(words), -(-S // factor)))
    if np.size(weights):
        cells[:] = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    size, font = _Size.of(S, D, len(words)), choose_font([*words, title])
    figure = Figure(figsize=(size.across, size.down), facecolor="white")
    upper = figure.add_axes((0.0, 1 - size.above / size.down, 1.0, size.above / size.down))
    lower = figure.add_axes((0.0, 0.0, 1.0, size.below / size.down), sharex=upper)
    _draw_steps(upper, spectrum, font, sound=seconds is not None)
    _draw_weights(figure, lower, cells, factor, font, size)
    _write_words(lower, words, font, size)
    _write_times(upper, lower, S, seconds, font)
    if title:
        _write_title(upper, font, title)
    save_figure(figure, path)


def _draw_steps(axes: Axes, spectrum: NDArray[Any], font: Font, *, sound: bool) -> None:
    """Each value around its own mean, so that small ones can be seen beside large ones."""
    S, D = spectrum.shape
    axes.imshow(
        standardised(spectrum).T, cmap="gray_r", vmin=-_SPREAD, vmax=_SPREAD, aspect="auto", interpolation="nearest",
        origin="lower" if sound else "upper", extent=(0, S, 0, D) if sound else (0, S, D, 0),
    )  # fmt: skip
    axes.set_yticks([0.5, D - 0.5] if D > 1 else [0.5])
    axes.set_yticklabels(["1", str(D)] if D > 1 else ["1"], fontproperties=font.sized(7.5), color=QUIET)
    axes.set_ylabel("mel band" if sound else "value", color=QUIET, fontproperties=font.sized(8.5))
    _frame(axes)


def _draw_weights(figure: Figure, axes: Axes, cells: NDArray[np.float64], factor: int, font: Font, size: _Size) -> None:
    """A row for each word; the last cell may reach beyond the last step, where it is cut."""
    T, length = cells.shape
    highest = float(cells.max()) or 1.0
    image = axes.imshow(
        cells, cmap=HEAT, vmin=0.0, vmax=highest, aspect="auto", interpolation="nearest",
        extent=(0, length * factor, T - 0.5, -0.5),
    )  # fmt: skip
    for row in range(1, T):
        axes.axhline(row - 0.5, color=LINE, linewidth=0.5)
    high = min(size.below, 1.5) / size.down
    top = size.below / size.down
    draw_scale(figure, image, font, (1.0 + 0.12 / size.across, top - high, 0.10 / size.across, high))
    _frame(axes)


def _write_words(axes: Axes, words: list[str], font: Font, size: _Size) -> None:
    rows = range(0, len(words), stride(_POINTS, size.below / len(words)))
    axes.set_yticks(list(rows))
    axes.set_yticklabels([font.writable(words[i]) for i in rows], fontproperties=font.sized(_POINTS), color=INK)
    for text in axes.get_yticklabels():
        text.set_parse_math(False)  # a dollar sign is a dollar sign


def _write_times(upper: Axes, lower: Axes, S: int, seconds: float | None, font: Font) -> None:
    """One axis for both parts, below them."""
    if seconds is None:
        numbers = [int(step) for step in _TICKS.tick_values(1, S) if 1 <= step <= S and step == int(step)]
        places, names = [number - 0.5 for number in numbers], [str(number) for number in numbers]
    else:
        times = [time for time in _TICKS.tick_values(0, S * seconds) if 0 <= time <= S * seconds]
        places, names = [time / seconds for time in times], [f"{time:.4g}" for time in times]
    lower.set_xticks(places)
    lower.set_xticklabels(names, fontproperties=font.sized(7.5), color=QUIET)
    lower.set_xlabel("step" if seconds is None else "seconds", color=QUIET, fontproperties=font.sized(8.5))
    lower.tick_params(axis="x", length=3, color=QUIET)
    upper.tick_params(axis="x", labelbottom=False)
    upper.set_xlim(0, S)


def _frame(axes: Axes) -> None:
    axes.tick_params(length=0, pad=4)
    for spine in axes.spines.values():
        spine.set_color(QUIET)
        spine.set_linewidth(0.6)


def _write_title(axes: Axes, font: Font, title: str) -> None:
    text = axes.set_title(font.writable(title, longest=100, keep=" "), loc="left", pad=10, color=INK)
    text.set_fontproperties(font.sized(10.5))
    text.set_parse_math(False)
