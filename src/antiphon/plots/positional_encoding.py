"""The positional encoding as a picture: a row for every position, a column for every dimension."""
# P positions, D dimensions

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from antiphon.config.networks import ConcatenatedConfig
from antiphon.config.schema import Config
from antiphon.models.layers.positions import LearntPositions, NoPositions, Positions, SinusoidalPositions
from antiphon.models.model import SequenceModel
from antiphon.plots.style import INK, QUIET, SIGNED, Font, choose_font, draw_scale, save_figure

__all__ = ["draw_positions", "position_tables"]

_ACROSS = 6.4  # inches of a panel
_SMALLEST, _TALLEST = 2.2, 6.0
_ROWS = 100  # of a table that has no end
_ROW = 0.06  # inches a position, within these limits


def position_tables(model: SequenceModel, config: Config | None = None) -> dict[str, NDArray[Any]]:
    """The positions of each part that has any [P, D], by name: of sinusoids the first 100, of a learnt table those rows
    that training with this config can reach, for the others are as they were drawn. Without a config it is whole.
    """
    found: dict[str, Positions] = {}
    for part in ("encoder", "decoder"):
        positions = getattr(getattr(model, part, None), "positions", None)
        if isinstance(positions, Positions) and not isinstance(positions, NoPositions):
            found[part] = positions
    alike = {(type(one), one.size) for one in found.values()} if len(found) == 2 else set()
    if len(alike) == 1 and isinstance(found["encoder"], SinusoidalPositions):
        found = {"encoder and decoder": found["encoder"]}
    return dict(_named(part, one, None if config is None else _reached(config, part)) for part, one in found.items())


def _named(part: str, positions: Positions, reached: int | None) -> tuple[str, NDArray[Any]]:
    """A name and a table."""
    if not isinstance(positions, LearntPositions):
        return f"sinusoidal positions, {part}", _table(positions, _ROWS)
    whole = positions.table.num_embeddings
    if reached is None or reached >= whole:
        return f"learnt positions, {part}", _table(positions, whole)
    return f"learnt positions, {part}: the {reached} of {whole} that training can reach", _table(positions, reached)


def _reached(config: Config, part: str) -> int:
    """How many positions the longest example has, with its </s> or what stands before it."""
    data = config.data
    source = sum(one.max_length + 1 for one in data.sources)
    if part == "encoder":
        return source
    target = (data.window or data.target.max_length) + 1
    return source + target if isinstance(config.model, ConcatenatedConfig) else target


@torch.inference_mode()
def _table(positions: Positions, rows: int) -> NDArray[Any]:
    table: NDArray[Any] = positions.at(torch.arange(rows), rows, torch.zeros(0)).numpy()
    return table


def draw_positions(tables: dict[str, NDArray[Any]], path: Path) -> None:
    """Write tables [P, D], each under its name and on its own scale, as PNG or SVG by suffix."""
    if not tables or any(np.ndim(table) != 2 or not np.size(table) for table in tables.values()):
        raise ValueError("tables [P, D] with at least one position and one dimension are drawn")
    font = choose_font(tables)
    heights = [float(np.clip(len(table) * _ROW, _SMALLEST, _TALLEST)) for table in tables.values()]
    figure = Figure(figsize=(_ACROSS, max(heights)), facecolor="white")
    for number, (name, table) in enumerate(tables.items()):
        left = number * (1.0 + 1.5 / _ACROSS)  # beside one another; saving cuts around them all
        high = heights[number] / max(heights)
        axes = figure.add_axes((left, 1.0 - high, 1.0, high))
        image = _draw_table(axes, np.nan_to_num(np.asarray(table, dtype=np.float64)))
        _dress(axes, font, name)
        short = min(1.5 / max(heights), high)
        draw_scale(figure, image, font, (left + 1.0 + 0.12 / _ACROSS, 1.0 - short, 0.10 / _ACROSS, short))
    save_figure(figure, path)


def _draw_table(axes: Axes, table: NDArray[np.float64]) -> AxesImage:
    """White is 0, blue above, red below; the scale is as wide on both sides."""
    highest = float(np.abs(table).max()) or 1.0
    return axes.imshow(table, cmap=SIGNED, vmin=-highest, vmax=highest, aspect="auto", interpolation="nearest")


def _dress(axes: Axes, font: Font, name: str) -> None:
    axes.set_title(font.writable(name, longest=100, keep=" "), loc="left", pad=10, color=INK).set_fontproperties(
        font.sized(10.5)
    )
    axes.set_xlabel("dimension", color=QUIET).set_fontproperties(font.sized(8.5))
    axes.set_ylabel("position", color=QUIET).set_fontproperties(font.sized(8.5))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.tick_params(colors=QUIET, labelsize=8, length=0)
    for spine in axes.spines.values():
        spine.set_color(QUIET)
        spine.set_linewidth(0.6)
