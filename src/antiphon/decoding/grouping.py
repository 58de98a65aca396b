"""Which rows are computed together: those of like length, so that there is little padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

__all__ = ["alike"]


def alike(lengths: Sequence[tuple[int, ...]], size: int) -> Iterator[list[int]]:
    """Row numbers, `size` at most and like lengths together; in one group the first lengths (of prompts) are equal."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    for _, group in groupby(order, key=lambda row: lengths[row][0]):
        rows = list(group)
        for first in range(0, len(rows), size):
            yield rows[first : first + size]
