"""The rows of a corpus: ids that lie on disk, or cells that name files, which are read when they are asked for."""
# N rows, B rows of a batch, S source steps

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from antiphon.data.source import Array, FileSource, Random, UnreadableError

__all__ = [
    "Cell",
    "CellsWriter",
    "Chance",
    "Corpus",
    "FileRows",
    "Ragged",
    "RaggedWriter",
    "RowWriter",
    "Rows",
    "SeveralRows",
    "likeness",
    "read_lengths",
]

# Rows of ids of unequal length as one flat array and offsets, in memory or mapped from disk.

Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Ragged:
    """Row i is ids[offsets[i] : offsets[i + 1]]."""

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """Rows held in memory."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls(ids, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))

    @classmethod
    def map(cls, folder: Path, name: str) -> Ragged:
        """Rows on disk, read only when they are asked for."""
        ids = np.load(folder / f"{name}.ids.npy", mmap_mode="r", allow_pickle=False)
        offsets = np.load(folder / f"{name}.offsets.npy", mmap_mode="r", allow_pickle=False)
        if offsets[0] != 0 or offsets[-1] != len(ids):
            raise ValueError(f"{name}: ids and offsets do not belong together")
        return cls(ids, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[np.int32]:
        if not 0 <= row < len(self):
            raise IndexError(row)
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Ids in each row, without </s>."""
        return np.diff(self.offsets)


class RaggedWriter:
    """Writes rows to disk as they come; only the offsets stay in memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self._offsets_path = folder / f"{name}.offsets.npy"
        self._offsets = array("q", [0])
        self._longest = 0
        self._file: BinaryIO = (folder / f"{name}.ids.npy").open("wb")
        self._write_header(0)

    def __enter__(self) -> RaggedWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, rows: Iterable[Sequence[int]]) -> None:
        """Append rows."""
        rows = list(rows)
        end = self._offsets[-1]
        for row in rows:
            end += len(row)
            self._offsets.append(end)
            self._longest = max(self._longest, len(row))
        np.fromiter(chain.from_iterable(rows), np.int32).tofile(self._file)

    def finish(self) -> None:
        """Write the true length into the header, and the offsets beside it."""
        self._file.seek(0)
        self._write_header(self._offsets[-1])
        self._file.close()
        np.save(self._offsets_path, np.frombuffer(self._offsets, np.int64))

    def facts(self) -> dict[str, float]:
        """How many rows and tokens there are, and how long they get."""
        rows, tokens = len(self._offsets) - 1, self._offsets[-1]
        return {"tokens": tokens, "longest": self._longest, "mean": round(tokens / rows, 2) if rows else 0.0}

    def _write_header(self, length: int) -> None:
        """numpy leaves room in the header for any length, so that it can be written again in place."""
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.int32)), "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(self._file, header)


Chance = Callable[[int, int], Random]  # the number of a row, and of a source among several -> its random numbers


@dataclass(frozen=True)
class Cell:
    """A path, and the positions of what it names."""

    text: str
    positions: int

    def __len__(self) -> int:
        return self.positions


@dataclass(frozen=True)
class FileRows:
    """Row i is what is read from the file cells[i], of so many positions."""

    cells: list[str]
    lengths: Ints
    source: FileSource

    @classmethod
    def load(cls, folder: Path, name: str, source: FileSource) -> FileRows:
        """What CellsWriter wrote."""
        cells = json.loads((folder / f"{name}.cells.json").read_text(encoding="utf-8"))
        lengths = np.load(folder / f"{name}.lengths.npy", allow_pickle=False)
        if len(cells) != len(lengths):
            raise ValueError(f"{name}: cells and lengths do not belong together")
        return cls(cells, lengths, source)

    def __len__(self) -> int:
        return len(self.cells)

    def read(self, rows: Ints, number: int, chance: Chance | None) -> Iterator[Array]:
        """These rows, the `number`-th source of each."""
        for row in rows:
            try:
                yield self.source.read(self.cells[row], None if chance is None else chance(int(row), number))
            except UnreadableError as error:
                raise UnreadableError(f"{self.cells[row]}: {error}") from error


@dataclass(frozen=True)
class SeveralRows:
    """Row i is made of row i of each part."""

    parts: tuple[Ragged | FileRows, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    @cached_property
    def lengths(self) -> Ints:
        """Positions of all parts, without </s>."""
        return np.asarray(np.sum([part.lengths for part in self.parts], axis=0))


Rows = Ragged | FileRows | SeveralRows


def read_lengths(rows: Rows) -> Ints:
    """Positions that a network reads: </s> counts; a corpus without sources has none."""
    if isinstance(rows, SeveralRows):
        return np.asarray(np.sum([read_lengths(part) for part in rows.parts], axis=0))
    return rows.lengths + int(rows.lengths.any()) if isinstance(rows, Ragged) else rows.lengths


def likeness(rows: Rows) -> Ints:
    """What says which rows are alike: their lengths, of several parts the longest one's.

    By the sum, pictures that are all of one width would be sorted by their questions, and each batch had one kind of
    question, which is learnt from more slowly (decision 0020).
    """
    if isinstance(rows, SeveralRows):
        return np.asarray(np.max([read_lengths(part) for part in rows.parts], axis=0))
    return read_lengths(rows)


@dataclass(frozen=True)
class Corpus:
    """Encoded pairs: row i of one side belongs to row i of the other."""

    source: Rows
    target: Ragged

    def __len__(self) -> int:
        return len(self.source)


class RowWriter(Protocol):
    """Writes the rows of one side as they come."""

    def add(self, rows: Iterable[Any]) -> None: ...

    def facts(self) -> dict[str, float]: ...

    def finish(self) -> None: ...


class CellsWriter:
    """Writes paths and lengths to disk; only the paths stay in memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path, self._name = folder, name
        self._cells: list[str] = []
        self._lengths = array("q")

    def add(self, rows: Iterable[Cell]) -> None:
        """Append rows."""
        for row in rows:
            self._cells.append(row.text)
            self._lengths.append(row.positions)

    def finish(self) -> None:
        content = json.dumps(self._cells, ensure_ascii=False)
        (self._path / f"{self._name}.cells.json").write_text(content + "\n", encoding="utf-8", newline="\n")
        np.save(self._path / f"{self._name}.lengths.npy", np.frombuffer(self._lengths, np.int64))

    def facts(self) -> dict[str, float]:
        """How many positions there are, and how long they get."""
        rows, total = len(self._lengths), sum(self._lengths)
        return {
            "positions": total,
            "longest": max(self._lengths, default=0),
            "mean": round(total / rows, 2) if rows else 0.0,
        }
