"""A source: tokens of a text, cells of an image, frames of a sound, vectors, or several of them."""
# S steps, D width of a vector

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = [
    "BETWEEN",
    "Array",
    "FileSource",
    "Random",
    "Read",
    "Reader",
    "SeveralSources",
    "Source",
    "UnreadableError",
    "Values",
    "positions",
]

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


# What a run reads: a text, a file, or several of them, as one value that is kept in its folder.

BETWEEN = "\t"  # stands between the cells of several sources
Values = list[int] | Array  # ids, or vectors [S, D]
Read = Values | tuple[Values, ...]


class Source(ABC):
    """Reads what goes into a network, and is saved with it."""

    kind: str

    @property
    @abstractmethod
    def sizes(self) -> list[int]:
        """Of each source: how many different tokens there are, or the width D of a vector."""

    @property
    @abstractmethod
    def parts(self) -> Sequence[Source]:
        """Each of several, or this one alone."""

    @abstractmethod
    def read(self, text: str, chance: Random | None = None) -> Read:
        """The ids of a text, the vectors of a file, or a tuple of these. With `chance` as training wants it.

        UnreadableError where that is not possible.
        """

    @abstractmethod
    def json(self) -> str:
        """All that a model folder has to keep of it."""

    def cells(self, text: str) -> list[str]:
        """The cell of each part. UnreadableError if there are more or fewer cells than parts."""
        return [text]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the JSON: equal sources have equal fingerprints."""
        return hashlib.sha256(self.json().encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the JSON file."""
        path.write_text(self.json() + "\n", encoding="utf-8", newline="\n")


class FileSource(Source):
    """A source that is a file: a picture, a sound, vectors, a video."""

    def __init__(self, kind: str, reader: Reader) -> None:
        self.kind = kind
        self.reader = reader

    @property
    def sizes(self) -> list[int]:
        return [self.reader.size]

    @property
    def parts(self) -> Sequence[Source]:
        return [self]

    def length(self, text: str) -> int:
        """The positions of `read`, from the header of the file. UnreadableError as there."""
        return self.reader.length(_path(text))

    def read(self, text: str, chance: Random | None = None) -> Array:
        return self.reader.read(_path(text), chance)

    def json(self) -> str:
        return self.reader.json()


def _path(text: str) -> str:
    if not text:  # to pathlib, that is the folder where the user is
        raise UnreadableError("an empty path")
    return text


class SeveralSources(Source):
    """Several sources, whose cells stand in one text with a tab between them."""

    kind = "several"

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)

    @property
    def sizes(self) -> list[int]:
        return [size for source in self._sources for size in source.sizes]

    @property
    def parts(self) -> Sequence[Source]:
        return self._sources

    def cells(self, text: str) -> list[str]:
        found = text.split(BETWEEN)
        if len(found) != len(self._sources):
            raise UnreadableError(f"{len(found)} cells for {len(self._sources)} sources; put a tab between them")
        return found

    def read(self, text: str, chance: Random | None = None) -> tuple[Values, ...]:
        both = zip(self._sources, self.cells(text), strict=True)
        parts = [source.read(cell, chance) for source, cell in both]
        return tuple(part for part in parts if not isinstance(part, tuple))

    def json(self) -> str:
        inner = [json.loads(source.json()) for source in self._sources]
        return json.dumps({"kind": self.kind, "sources": inner}, ensure_ascii=False, indent=1)


def positions(read: Read) -> int:
    """So many positions a network reads; a text has its </s>."""
    if isinstance(read, tuple):
        return sum(positions(part) for part in read)
    return len(read) + isinstance(read, list)
