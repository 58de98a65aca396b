"""Vectors that another program has computed, in .npy and .npz files."""
# T vectors, D width of a vector

from __future__ import annotations

import json
import math
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from antiphon.config.sources import FeaturesConfig
from antiphon.data.augment import spec_augment, standardise
from antiphon.data.source import Array, FileSource, Random, UnreadableError

__all__ = ["HEADERS", "FeaturesReader"]

NAME = "features"  # of the array that is read where an .npz has several
VERSIONS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# Numpy parses headers with ast.literal_eval, which now and then fails in two threads at once (CPython issue 106905).
HEADERS = threading.Lock()


class FeaturesReader(FileSource):
    """Arrays [T, D] of numbers, all of one width D.

    A set (`ordered: false`) is sorted by the first value of its vectors, then by the second, and so on. So the order
    in the file changes nothing, whatever the encoder. A recurrent or convolutional encoder, or one with positions,
    reads the sorted order.
    """

    def __init__(self, config: FeaturesConfig, width: int) -> None:
        self.config = config
        self.kind = config.kind
        self.size = width

    @staticmethod
    def first_width(cell: str) -> int:
        """The width of this array; all others must have the same."""
        return _shape(cell)[1]

    def length(self, cell: str) -> int:
        length, width = _shape(cell)
        if width != self.size:
            raise UnreadableError(f"its vectors have {width} values, the first array's have {self.size}")
        return length

    def read(self, cell: str, chance: Random | None = None) -> Array:
        self.length(cell)  # faults that the header tells, before memory is allocated
        vectors = _vectors(cell)
        if not self.config.ordered:
            vectors = vectors[np.lexsort(vectors.T[::-1])]
        if self.config.normalise:
            vectors = standardise(vectors)
        if chance is None:
            return vectors
        return spec_augment(vectors, chance, self.config.masks.time, self.config.masks.values)

    def json(self) -> str:
        kept = {"width": self.size, "ordered": self.config.ordered, "normalise": self.config.normalise}
        return json.dumps({"kind": self.config.kind, **kept})


def _shape(cell: str) -> tuple[int, int]:
    """T and D, from the header."""
    with _open_array(cell) as (file, file_size):
        shape, _, dtype = _header(file)
        start = file.tell()  # of the numbers
    if dtype.kind not in "fiub":
        raise UnreadableError(f"an array of {dtype}, not of real numbers")
    if len(shape) != 2:
        raise UnreadableError(f"an array of rank {len(shape)} instead of 2 (vectors, values)")
    length, width = shape
    if not length or not width:
        raise UnreadableError(f"an empty array ({length} vectors of {width} values)")
    if start + length * width * dtype.itemsize > file_size:
        raise UnreadableError("the file is truncated")
    return length, width


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, column-major order and type; the numbers begin where it ends."""
    read_header = VERSIONS.get(npy.read_magic(file))
    if read_header is None:
        raise UnreadableError("an array in a format that is not known here; save it with numpy.save")
    with HEADERS:
        return read_header(file)


def _vectors(cell: str) -> Array:
    with _open_array(cell) as (file, _):
        shape, column_major, dtype = _header(file)
        numbers = np.frombuffer(file.read(math.prod(shape) * dtype.itemsize), dtype)
        read = numbers.reshape(shape, order="F" if column_major else "C")
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite
        vectors = np.array(read, np.float32, order="C")
    if not np.isfinite(vectors).all():
        row, column = np.argwhere(~np.isfinite(vectors))[0] + 1
        raise UnreadableError(
            f"vector {row}, value {column} is no finite number of 32 bits ({read[row - 1, column - 1]})"
        )
    return vectors


@contextmanager
def _open_array(cell: str) -> Iterator[tuple[IO[bytes], int]]:
    """The file of an array, in a ZIP or not, and its size in bytes."""
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
