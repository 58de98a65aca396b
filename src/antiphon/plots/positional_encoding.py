"""The positional encoding as a picture: a row for every position, a column for every dimension."""
# P positions, D dimensions; all lengths in inches

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from antiphon.config.networks import ConcatenatedConfig
from antiphon.config.schema import Config
from antiphon.models.layers.positions import LearntPositions, NoPositions, Positions, SinusoidalPositions
from antiphon.models.model import SequenceModel
from antiphon.plots.style import QUIET, SIGNED, draw_colour_bar, draw_frame, font, save_figure, write_title

__all__ = ["draw_positions", "position_tables"]

_WIDTH = 6.4  # of a panel
_SHORTEST, _TALLEST = 2.2, 6.0
_ROW = 0.06  # height of a position, within these limits
_ROWS = 100  # shown of sinusoids, which have no end


def position_tables(model: SequenceModel, config: Config) -> dict[str, NDArray[Any]]:
    """The positional encodings [P, D] of encoder and decoder by name.

    Of sinusoids the first 100 rows are shown, of a learnt table those that training can reach (the others are still
    random).
    """
    parts: dict[str, Positions] = {}
    for part in ("encoder", "decoder"):
        positions = getattr(getattr(model, part, None), "positions", None)
        if isinstance(positions, Positions) and not isinstance(positions, NoPositions):
            parts[part] = positions
    sinusoids = [positions.size for positions in parts.values() if isinstance(positions, SinusoidalPositions)]
    if len(sinusoids) == 2 and sinusoids[0] == sinusoids[1]:
        parts = {"encoder and decoder": parts["encoder"]}
    return dict(_named_table(part, positions, config) for part, positions in parts.items())


def _named_table(part: str, positions: Positions, config: Config) -> tuple[str, NDArray[Any]]:
    if not isinstance(positions, LearntPositions):
        return f"sinusoidal positions, {part}", _table(positions, _ROWS)
    whole = positions.table.num_embeddings
    reached = _reached_positions(config, part)
    if reached >= whole:
        return f"learnt positions, {part}", _table(positions, whole)
    return f"learnt positions, {part}: the {reached} of {whole} that training can reach", _table(positions, reached)


def _reached_positions(config: Config, part: str) -> int:
    """The number of positions of the longest example, with its <s> or </s>."""
    data = config.data
    source = sum(source.max_length + 1 for source in data.sources)
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
    heights = [float(np.clip(len(table) * _ROW, _SHORTEST, _TALLEST)) for table in tables.values()]
    figure = Figure(figsize=(_WIDTH, max(heights)), facecolor="white")
    for number, (name, table) in enumerate(tables.items()):
        left = number * (1.0 + 1.5 / _WIDTH)  # beside one another; saving cuts around them all
        share = heights[number] / max(heights)
        axes = figure.add_axes((left, 1.0 - share, 1.0, share))
        cells = np.nan_to_num(np.asarray(table, dtype=np.float64))
        highest = float(np.abs(cells).max()) or 1.0  # 0 is white
        image = axes.imshow(cells, cmap=SIGNED, vmin=-highest, vmax=highest, aspect="auto", interpolation="nearest")
        _style_axes(axes, name)
        draw_colour_bar(figure, image, gap=left * _WIDTH + 0.12, room=share)
    save_figure(figure, path)


def _style_axes(axes: Axes, name: str) -> None:
    write_title(axes, name)
    axes.set_xlabel("dimension", color=QUIET, fontproperties=font(8.5))
    axes.set_ylabel("position", color=QUIET, fontproperties=font(8.5))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    draw_frame(axes)
    axes.tick_params(colors=QUIET, labelsize=8, pad=3.5)
