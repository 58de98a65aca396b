"""The rows of a corpus: ids on disk, or the paths of files, which are read batch by batch."""
# N rows, B rows of a batch, S source steps

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from antiphon.data.source import Array, FileSource, Ints, Random, UnreadableError

__all__ = [
    "Chance", "Corpus", "FileCell", "FileRows", "FileRowsWriter", "MultiSourceRows", "Ragged", "RaggedWriter",
    "RowWriter", "Rows", "read_lengths", "sorting_lengths",
]  # fmt: skip


@dataclass(frozen=True)
class Ragged:
    """Rows of ids of unequal length: row i is ids[offsets[i] : offsets[i + 1]]."""

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
        """Rows on disk, mapped into memory."""
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


Chance = Callable[[int, int], Random]  # numbers of a row and of a source among several -> random numbers


@dataclass(frozen=True)
class FileCell:
    """The path of a file, and its length in positions."""

    path: str
    length: int

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True)
class FileRows:
    """Row i is the content of the file cells[i], of lengths[i] positions."""

    cells: list[str]
    lengths: Ints
    source: FileSource

    @classmethod
    def load(cls, folder: Path, name: str, source: FileSource) -> FileRows:
        """Rows that FileRowsWriter wrote."""
        cells = json.loads((folder / f"{name}.cells.json").read_text(encoding="utf-8"))
        lengths = np.load(folder / f"{name}.lengths.npy", allow_pickle=False)
        if len(cells) != len(lengths):
            raise ValueError(f"{name}: cells and lengths do not belong together")
        return cls(cells, lengths, source)

    def __len__(self) -> int:
        return len(self.cells)

    def read(self, rows: Ints, number: int, chance: Chance | None) -> Iterator[Array]:
        """The content of these rows; `number` is that of this source among several."""
        for row in rows:
            try:
                yield self.source.read(self.cells[row], None if chance is None else chance(int(row), number))
            except UnreadableError as error:
                raise UnreadableError(f"{self.cells[row]}: {error}") from error


@dataclass(frozen=True)
class MultiSourceRows:
    """Several sources: row i consists of row i of each part."""

    parts: tuple[Ragged | FileRows, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    @cached_property
    def lengths(self) -> Ints:
        """Positions of all parts, without </s>."""
        return np.asarray(np.sum([part.lengths for part in self.parts], axis=0))


Rows = Ragged | FileRows | MultiSourceRows


def read_lengths(rows: Rows) -> Ints:
    """Positions that a network reads, with </s>; a corpus without sources has none."""
    if isinstance(rows, MultiSourceRows):
        return np.asarray(np.sum([read_lengths(part) for part in rows.parts], axis=0))
    return rows.lengths + int(rows.lengths.any()) if isinstance(rows, Ragged) else rows.lengths


def sorting_lengths(rows: Rows) -> Ints:
    """The lengths by which rows are sorted into batches; of several sources that of the longest.

    Sorted by the sum, pictures that are all of one width would be sorted by their questions, and each batch would have
    one kind of question, from which a model learns more slowly (decision 0020).
    """
    if isinstance(rows, MultiSourceRows):
        return np.asarray(np.max([read_lengths(part) for part in rows.parts], axis=0))
    return read_lengths(rows)


@dataclass(frozen=True)
class Corpus:
    """Encoded pairs: row i of the source and row i of the target are one pair."""

    source: Rows
    target: Ragged

    def __len__(self) -> int:
        return len(self.source)


class RowWriter(Protocol):
    """Writes the rows of one side as they come."""

    def add(self, rows: Sequence[Any]) -> None: ...

    def finish(self) -> dict[str, float]: ...


class RaggedWriter:
    """Writes rows of ids as they come; only the offsets stay in memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self._ids_path, self._offsets_path = folder / f"{name}.ids.npy", folder / f"{name}.offsets.npy"
        self._offsets = array("q", [0])
        with self._ids_path.open("wb") as file:
            _write_header(file, 0)

    def add(self, rows: Sequence[Sequence[int]]) -> None:
        """Append rows."""
        for row in rows:
            self._offsets.append(self._offsets[-1] + len(row))
        with self._ids_path.open("ab") as file:
            np.fromiter(chain.from_iterable(rows), np.int32).tofile(file)

    def finish(self) -> dict[str, float]:
        """Write the true length into the header, and the offsets beside it; return the statistics."""
        with self._ids_path.open("r+b") as file:
            _write_header(file, self._offsets[-1])
        offsets = np.frombuffer(self._offsets, np.int64)
        np.save(self._offsets_path, offsets)
        return _length_facts("tokens", np.diff(offsets))


def _write_header(file: BinaryIO, length: int) -> None:
    """The header of an .npy file; numpy leaves space in it for any length, so it can be written again in place."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.int32)), "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(file, header)


class FileRowsWriter:
    """Writes paths and lengths of files; both stay in memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self._cells_path, self._lengths_path = folder / f"{name}.cells.json", folder / f"{name}.lengths.npy"
        self._cells: list[str] = []
        self._lengths = array("q")

    def add(self, rows: Sequence[FileCell]) -> None:
        """Append rows."""
        self._cells += [row.path for row in rows]
        self._lengths.extend(row.length for row in rows)

    def finish(self) -> dict[str, float]:
        """Write both files; return the statistics."""
        content = json.dumps(self._cells, ensure_ascii=False)
        self._cells_path.write_text(content + "\n", encoding="utf-8", newline="\n")
        lengths = np.frombuffer(self._lengths, np.int64)
        np.save(self._lengths_path, lengths)
        return _length_facts("positions", lengths)


def _length_facts(unit: str, lengths: Ints) -> dict[str, float]:
    """The total, the longest and the mean of the lengths of all rows."""
    total, rows = int(lengths.sum()), len(lengths)
    return {unit: total, "longest": int(lengths.max(initial=0)), "mean": round(total / rows, 2) if rows else 0.0}
