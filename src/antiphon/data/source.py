"""A source: tokens of a text, cells of an image, frames of a sound, vectors, or several of them."""
# S steps, D width of a vector

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from antiphon.config.schema import DataConfig, SourceConfig

__all__ = [
    "Array", "Cells", "FileSource", "Ints", "MultiSourceReader", "Random", "Read", "SingleSource", "Source",
    "SourcePaths", "UnreadableError", "Values", "join_cells", "positions", "split_cells",
]  # fmt: skip

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


class MultiSourceReader(Source):
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


@dataclass(frozen=True)
class SourcePaths:
    """Turns the cells of sources that are files into paths. `folders` has one for each source; None: it is a text."""

    folders: tuple[str | None, ...]
    inside: bool = True  # a path may not leave its folder

    @classmethod
    def of_table(cls, data: DataConfig, table: Path) -> SourcePaths:
        """Paths below the folder of the table or data.source.folder, which they may not leave.

        The author of the table need not be the one who reads it.
        """
        return cls(tuple(_folder(source, table) for source in data.sources))

    @classmethod
    def of_lines(cls, data: DataConfig, file: str | None) -> SourcePaths:
        """Paths in the lines of a user: relative to the file they are in, or to the current folder."""
        folder = str(Path(file).parent) if file is not None else "."
        return cls(tuple(None if source.kind == "text" else folder for source in data.sources), inside=False)

    @property
    def needed(self) -> bool:
        """True if a source is a file."""
        return any(folder is not None for folder in self.folders)

    def resolve(self, cells: Cells) -> Cells:
        """Paths that can be opened; UnreadableError if one of a table is empty or leaves its folder."""
        both = zip(cells, self.folders, strict=True)
        return tuple(cell if folder is None else self._below(folder, cell) for cell, folder in both)

    def resolve_line(self, line: str) -> str:
        """A line of text with paths that can be opened; one with a wrong number of cells stays as it is."""
        cells = split_cells(line, len(self.folders))
        return join_cells(self.resolve(cells)) if len(cells) == len(self.folders) else line

    def relative(self, cells: Cells) -> Cells:
        """Cells as the table names them: the same wherever its folder lies."""
        both = zip(cells, self.folders, strict=True)
        return tuple(cell if folder is None else os.path.relpath(cell, folder) for cell, folder in both)

    def _below(self, folder: str, cell: str) -> str:
        if not cell.strip():
            if self.inside:
                raise UnreadableError("an empty path")
            return ""  # the reader of the lines reports it, with all other faults
        path = os.path.normpath(os.path.join(folder, cell.strip()))
        if self.inside and not _is_below(path, folder):
            raise UnreadableError(f"it leaves the folder {folder}")
        return path


def _folder(source: SourceConfig, table: Path) -> str | None:
    return None if source.kind == "text" else str(table.parent if source.folder is None else source.folder)


def _is_below(path: str, folder: str) -> bool:
    """True by the names alone: a link inside the folder is the user's own."""
    base, whole = os.path.abspath(folder), os.path.abspath(path)
    return whole != base and os.path.commonpath([base, whole]) == base
