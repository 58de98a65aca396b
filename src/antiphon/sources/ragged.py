"""Rows of ids of unequal length as one flat array and offsets, in memory or mapped from disk."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

__all__ = ["Ragged", "RaggedWriter"]

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
