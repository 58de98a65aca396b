"""A source: tokens of a text, cells of an image, frames of a sound, vectors, or several of them."""
# S steps, D width of a vector

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "Array",
    "Cells",
    "FileSource",
    "Ints",
    "Random",
    "Read",
    "SeveralSources",
    "SingleSource",
    "Source",
    "UnreadableError",
    "Values",
    "join_cells",
    "positions",
    "split_cells",
]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.integer[Any]]
Random = np.random.Generator


class UnreadableError(Exception):
    """A fault in the content of one cell: a few words, without the path or the row."""


Cells = tuple[str, ...]  # one for each source of an example: a text, or the path of a file
Values = list[int] | Array  # ids, or vectors [S, D]
Read = Values | tuple[Values, ...]


def join_cells(cells: Cells) -> str:
    """The cells of one example as a line of text, with tabs between them."""
    return "\t".join(cells)


def split_cells(line: str, count: int) -> Cells:
    """The cells of a line of text. One source may contain tabs, several may not."""
    return tuple(line.split("\t")) if count > 1 else (line,)


class Source(ABC):
    """The input side of a model, saved with it: a text, a file, or several of them."""

    kind: str

    @property
    @abstractmethod
    def sizes(self) -> list[int]:
        """The number of different tokens, or the width D of a vector, of each source."""

    @property
    @abstractmethod
    def parts(self) -> Sequence[SingleSource]:
        """Each of several, or this one alone."""

    @abstractmethod
    def json(self) -> str:
        """The content of its file in a model folder."""

    def cells(self, line: str) -> Cells:
        """The cell of each part in a line of text. UnreadableError if their number is wrong, or a path empty."""
        cells = split_cells(line, len(self.parts))
        if len(cells) != len(self.parts):
            raise UnreadableError(f"{len(cells)} cells for {len(self.parts)} sources; put a tab between them")
        if any(isinstance(part, FileSource) and not cell for part, cell in zip(self.parts, cells, strict=True)):
            raise UnreadableError("an empty path")
        return cells

    def shown(self, line: str) -> str:
        """The input as the model sees it: noise.py changes it in a pretext task."""
        return line

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the JSON: equal sources have equal fingerprints."""
        return hashlib.sha256(self.json().encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the JSON file."""
        path.write_text(self.json() + "\n", encoding="utf-8", newline="\n")


class SingleSource(Source):
    """One column of the table: a text or a file."""

    size: int  # the number of different tokens, or the width D of a vector

    @property
    def sizes(self) -> list[int]:
        return [self.size]

    @property
    def parts(self) -> Sequence[SingleSource]:
        return [self]

    @abstractmethod
    def read(self, cell: str, chance: Random | None = None) -> Values:
        """The ids of a text or the vectors of a file; `chance` draws the augmentation of training.

        UnreadableError if the file cannot be used.
        """


class FileSource(SingleSource):
    """A source that is a file: a picture, a sound, vectors, a video. The same file always gives the same array."""

    @abstractmethod
    def length(self, cell: str) -> int:
        """The positions of `read`, as cheaply as the file allows: from its header. UnreadableError as there."""

    @abstractmethod
    def read(self, cell: str, chance: Random | None = None) -> Array:
        """Vectors [S, D] of float32; `chance` draws the augmentation of training, which keeps the length.

        UnreadableError if the file cannot be used.
        """


class SeveralSources(Source):
    """Several sources of each example."""

    kind = "several"

    def __init__(self, sources: Sequence[SingleSource]) -> None:
        self._sources = tuple(sources)

    @property
    def sizes(self) -> list[int]:
        return [source.size for source in self._sources]

    @property
    def parts(self) -> Sequence[SingleSource]:
        return self._sources

    def json(self) -> str:
        inner = [json.loads(source.json()) for source in self._sources]
        return json.dumps({"kind": self.kind, "sources": inner}, ensure_ascii=False, indent=1)


def positions(read: Read) -> int:
    """The number of positions that a network reads; a text has its </s>."""
    if isinstance(read, tuple):
        return sum(positions(part) for part in read)
    return len(read) + isinstance(read, list)
