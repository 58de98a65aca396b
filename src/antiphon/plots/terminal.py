"""Attention as text: shaded blocks in the terminal."""
# T target steps, S source steps

from __future__ import annotations

from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from antiphon.text import visible

__all__ = ["attention_text"]

_SHADES = ((0.75, "█"), (0.50, "▓"), (0.25, "▒"), (0.05, "░"), (-1.0, "·"))
_LEGEND = "· under 5 %   ░ under 25 %   ▒ under 50 %   ▓ under 75 %   █ 75 % and more"
_COPIED = "the number before a row: how probable it is that the token was copied"
_WIDEST_LABEL = 16
_TALLEST_LABEL = 12
_CELL, _LARGEST, _END = "\x1b[36m", "\x1b[35m", "\x1b[0m"  # cyan and magenta are readable on light and on dark


def attention_text(
    weights: NDArray[Any],
    source: list[str],
    target: list[str],
    width: int = 80,
    colour: bool = False,
    copy_probs: list[float] | None = None,
) -> str:
    """A row for every target token, a column for every source token; a list of the highest weights if that is too wide.

    `copy_probs` are the probabilities that the target tokens were copied: a column at the left of the others.
    """
    if np.shape(weights) != (len(target), len(source)):
        raise ValueError(f"weights {np.shape(weights)} do not fit {len(target)} target and {len(source)} source tokens")
    if not source or not target:
        return "(nothing to draw)"
    cells = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0)
    columns, rows = [visible(token) or "∅" for token in source], [visible(token) or "∅" for token in target]
    margin = min(_WIDEST_LABEL, max(cell_len(label) for label in rows)) + 1
    if copy_probs:
        rows = [f"{_fit(label, margin)}{share:5.0%}" for label, share in zip(rows, copy_probs, strict=True)]
        margin += 6
    room = (width - margin) // len(columns)
    longest = max(cell_len(label) for label in columns)
    if room < 2:
        return "\n".join(_top_weights(cells, columns, rows, width, margin))
    if longest < room and longest <= _WIDEST_LABEL:
        cell = longest + 1
        labels = [" " * margin + "".join(_fit(label, cell) for label in columns).rstrip()]
    else:
        cell = min(room, 3)
        labels = _vertical_labels(columns, margin, cell)
    legend = [line for line in (_LEGEND, *([_COPIED] if copy_probs else [])) if len(line) <= width]
    return "\n".join([*labels, *_grid(cells, rows, margin, cell, colour), *([""] if legend else []), *legend])


def _fit(label: str, width: int) -> str:
    """The label in exactly `width` columns, cut with … if it is too wide."""
    if cell_len(label) > width:
        label = set_cell_size(label, width - 1) + "…" if width > 1 else "…"
    return set_cell_size(label, width)


def _grid(cells: NDArray[np.float64], rows: list[str], margin: int, cell: int, colour: bool) -> list[str]:
    lines = []
    for label, weights in zip(rows, cells, strict=True):
        largest = int(weights.argmax())
        blocks = [_block(weight, cell, colour, j == largest) for j, weight in enumerate(weights)]
        lines.append(_fit(label, margin - 1) + " " + "".join(blocks).rstrip())
    return lines


def _block(weight: float, cell: int, colour: bool, largest: bool) -> str:
    shade = next(shade for least, shade in _SHADES if weight >= least)
    block = shade if shade == "·" else shade * max(2, cell - 1)
    padding = " " * (cell - len(block))
    return f"{_LARGEST if largest else _CELL}{block}{_END}{padding}" if colour else block + padding


def _vertical_labels(columns: list[str], margin: int, cell: int) -> list[str]:
    """Labels written from top to bottom, ending just above their column."""
    letters = [_graphemes(label) for label in columns]
    height = max(len(label) for label in letters)
    padded = [[" "] * (height - len(label)) + label for label in letters]
    return [(" " * margin + "".join(_fit(label[i], cell) for label in padded)).rstrip() for i in range(height)]


def _graphemes(label: str) -> list[str]:
    """The characters as a reader sees them, each with its accents."""
    letters: list[str] = regex.findall(r"\X", label)
    return letters if len(letters) <= _TALLEST_LABEL else [*letters[: _TALLEST_LABEL - 1], "…"]


def _top_weights(cells: NDArray[np.float64], columns: list[str], rows: list[str], width: int, margin: int) -> list[str]:
    """For every target token the source tokens with the highest weights, with their places."""
    lines = []
    for label, weights in zip(rows, cells, strict=True):
        order = np.argsort(-weights, kind="stable")[:3]
        attended = [f"{columns[j]} ({j + 1}) {100 * weights[j]:.0f}%" for j in order if weights[j] >= 0.05]
        line = f"{_fit(label, margin - 1)} ← {attended[0] if attended else 'spread over all tokens'}"
        for more in attended[1:]:
            line += f", {more}" if cell_len(f"{line}, {more}") <= width else ""
        lines.append(line if cell_len(line) <= width else _fit(line, width))
    return lines
