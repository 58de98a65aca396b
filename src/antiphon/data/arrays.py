"""Vectors that another program has found, in .npy and .npz files."""
# T vectors, D width of a vector

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from antiphon.config.sources import FeaturesConfig
from antiphon.data.augment import hide_times, hide_values, standardised
from antiphon.data.source import Array, Random, UnreadableError

__all__ = ["FeaturesReader"]

NAME = "features"  # the array of an .npz that is read where there are several
VERSIONS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class FeaturesReader:
    """Arrays [T, D] of numbers, all of one width D.

    A set (`ordered: false`) is sorted: by the first value of its vectors, then by the second, and so on. So the order
    in the file changes nothing, whatever encoder follows. One that reads in order (recurrent, convolutional, with
    positions) still reads an order, that of the sorted vectors; one without positions reads none.
    """

    def __init__(self, config: FeaturesConfig, width: int) -> None:
        self.config = config
        self.size = width

    @staticmethod
    def first_width(cell: str) -> int:
        """The width of this array; those that follow must have the same."""
        return _shape(cell)[1]

    def length(self, cell: str) -> int:
        length, width = _shape(cell)
        self._same_width(width)
        return length

    def read(self, cell: str, chance: Random | None = None) -> Array:
        self.length(cell)  # what the header gives away is found before memory is asked for
        vectors = _vectors(cell)
        if not self.config.ordered:
            vectors = vectors[np.lexsort(vectors.T[::-1])]
        if self.config.normalise:
            vectors = standardised(vectors)
        return vectors if chance is None else self._hidden(vectors, chance)

    def json(self) -> str:
        kept = {"width": self.size, "ordered": self.config.ordered, "normalise": self.config.normalise}
        return json.dumps({"kind": self.config.kind, **kept})

    def _hidden(self, vectors: Array, chance: Random) -> Array:
        masks = self.config.masks
        if masks.time:
            vectors = hide_times(vectors, chance, masks=masks.time.count, width=masks.time.width)
        if masks.values:
            vectors = hide_values(vectors, chance, masks=masks.values.count, width=masks.values.width)
        return vectors

    def _same_width(self, width: int) -> None:
        if width != self.size:
            raise UnreadableError(f"its vectors have {width} values, the first array's have {self.size}")


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    kind: np.dtype[np.generic]
    starts: int  # bytes before the numbers


def _shape(cell: str) -> tuple[int, int]:
    """T and D, from the header alone."""
    with _opened(cell) as (file, bytes_in_all):
        header = _header(file)
    if header.kind.kind not in "fiub":
        raise UnreadableError(f"an array of {header.kind}, not of real numbers")
    if len(header.shape) != 2:
        raise UnreadableError(f"an array of rank {len(header.shape)} instead of 2 (vectors, values)")
    length, width = header.shape
    if not length or not width:
        raise UnreadableError(f"an empty array ({length} vectors of {width} values)")
    if header.starts + math.prod(header.shape) * header.kind.itemsize > bytes_in_all:
        raise UnreadableError("the file breaks off")
    return length, width


def _header(file: IO[bytes]) -> _Header:
    read = VERSIONS.get(npy.read_magic(file))
    if read is None:
        raise UnreadableError("an array in a format that is not known here; save it with numpy.save")
    shape, _, kind = read(file)
    return _Header(shape, kind, file.tell())


def _vectors(cell: str) -> Array:
    with _opened(cell) as (file, _):
        read = npy.read_array(file, allow_pickle=False)
    with np.errstate(over="ignore"):  # a number too large for float32 is infinite, and found
        vectors = np.ascontiguousarray(read, np.float32)
    if not np.isfinite(vectors).all():
        row, column = np.argwhere(~np.isfinite(vectors))[0] + 1
        raise UnreadableError(
            f"vector {row}, value {column} is no finite number of 32 bits ({read[row - 1, column - 1]})"
        )
    return vectors


@contextmanager
def _opened(cell: str) -> Iterator[tuple[IO[bytes], int]]:
    """The file of an array, in a ZIP or not, and how many bytes it has."""
    try:
        with Path(cell).open("rb") as outer:
            zipped = outer.read(2) == b"PK"
            outer.seek(0)
            if not zipped:
                yield outer, Path(cell).stat().st_size
                return
            with zipfile.ZipFile(outer) as archive, archive.open(member := _member(archive)) as inner:
                yield inner, member.file_size
    except FileNotFoundError as error:
        raise UnreadableError("no such file") from error
    except OSError as error:
        raise UnreadableError(f"cannot be read ({error.strerror or error})") from error
    except UnreadableError:
        raise
    except Exception as error:  # numpy and zipfile have a dozen kinds of error for bytes that make no sense
        raise UnreadableError("no array of numpy (.npy, .npz), or a damaged one") from error


def _member(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """The only array, or the one called `features`."""
    arrays = {info.filename.removesuffix(".npy"): info for info in archive.infolist() if info.filename.endswith(".npy")}
    if NAME in arrays:
        return arrays[NAME]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    names = ", ".join(sorted(arrays)[:5])
    raise UnreadableError(f"{len(arrays)} arrays and none called {NAME}" + (f": {names}" if names else ""))
