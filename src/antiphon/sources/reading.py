"""From the cell of a table to what a network can read: ids of tokens, or vectors of a picture, a sound, a file.

Whatever a source is, it becomes one array: ids [S], or vectors [S, D]. A picture is a row of columns of pixels, a sound
a row of spectra, a video a row of frames.
"""
# S steps, D width of a vector

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Random", "Reader", "UnreadableError"]

Array = npt.NDArray[Any]
Random = np.random.Generator


class UnreadableError(Exception):
    """What is wrong with the content of one cell: a fact in a few words, without the path or the row."""


class Reader(Protocol):
    """Reads one source. The same cell gives the same array, whatever was read before."""

    @property
    def size(self) -> int:
        """How many different tokens there are, or the width D of a vector."""
        ...

    def length(self, cell: str) -> int:
        """The positions of `read`, as cheaply as the file allows: from its header. UnreadableError as there."""
        ...

    def read(self, cell: str, chance: Random | None = None) -> Array:
        """Ids [S], or vectors [S, D] of float32. With `chance` as training wants it: shifted, masked, ...

        Whatever is drawn, the length stays what `length` says. UnreadableError if the file cannot be used.
        """
        ...

    def json(self) -> str:
        """All that a model folder has to keep of it."""
        ...
