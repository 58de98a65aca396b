"""Every file of the data is read once before training, so that all that cannot be used are known at once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from antiphon.config.schema import DataConfig
from antiphon.sources.ahead import reading_threads
from antiphon.sources.pairs import Dropped, Pair, read_pairs
from antiphon.sources.readers import is_file
from antiphon.sources.reading import UnreadableError
from antiphon.sources.rows import Cell
from antiphon.sources.source import BETWEEN, FileSource, Source

__all__ = ["Looked", "file_stamps", "stamp_of", "usable_pairs"]

SAY_EVERY = 1000  # files between two signs of life


@dataclass
class Looked:
    """The files of one source: how long each is, or why it cannot be used. Each is read once, whoever names it."""

    source: FileSource
    say: Callable[[str], None]
    longest: int  # of what is longer the header is read only: it is left out, and may be of any size
    lengths: dict[str, int] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """SHA-256 of all that was read so far, in order."""
        return self._digest.hexdigest()

    def at(self, cells: Iterable[str]) -> None:
        """Read what has not been read yet."""
        new = [cell for cell in dict.fromkeys(cells) if cell not in self.lengths and cell not in self.faults]
        with ThreadPoolExecutor(reading_threads()) as pool:
            for cell, found in zip(new, pool.map(self._read, new), strict=True):
                self._keep(cell, found)

    def cell(self, text: str) -> Cell | None:
        """A path with its length; None if the file cannot be used."""
        return Cell(text, self.lengths[text]) if text in self.lengths else None

    def _read(self, cell: str) -> tuple[int, bytes] | UnreadableError:
        try:
            length = self.source.length(cell)
            found = self.source.read(cell) if length <= self.longest else None
        except UnreadableError as error:
            return error
        return length, b"" if found is None else hashlib.sha256(found.tobytes()).digest()

    def _keep(self, cell: str, found: tuple[int, bytes] | UnreadableError) -> None:
        if isinstance(found, UnreadableError):
            self.faults[cell] = str(found)
        else:
            self.lengths[cell] = found[0]
            self._digest.update(found[1])
        count = len(self.lengths) + len(self.faults)
        if count % SAY_EVERY == 0:
            self.say(f"read {count:,} files ({self.source.kind})")


def usable_pairs(files: str | list[str], data: DataConfig, source: Source, dropped: Dropped) -> Iterator[Pair]:
    """Every usable pair in the order of the file; of sources that are files, each is read once before the first pair.

    DataError with all that cannot be read, unless data.skip_unreadable is true.
    """
    pairs = read_pairs(files, data, dropped)
    if not any(map(is_file, data.sources)):
        return pairs
    found = list(_readable(pairs, files if isinstance(files, str) else files[0], data, source, dropped))
    dropped.refuse(data)
    return iter(found)


def _readable(pairs: Iterable[Pair], file: str, data: DataConfig, source: Source, dropped: Dropped) -> Iterator[Pair]:
    """The pairs whose files can be read; others are counted as unreadable."""
    both = enumerate(zip(data.sources, source.parts, strict=False))
    looked = {
        number: Looked(part, lambda _: None, config.max_length)
        for number, (config, part) in both
        if isinstance(part, FileSource)
    }
    pairs = iter(pairs)
    while chunk := list(islice(pairs, SAY_EVERY)):
        cells = [source.cells(pair.source) for pair in chunk]
        for number, one in looked.items():
            one.at(row[number] for row in cells)
        for pair, row in zip(chunk, cells, strict=True):
            faulty = next(((row[n], one.faults[row[n]]) for n, one in looked.items() if row[n] in one.faults), None)
            if faulty is None:
                yield pair
            else:
                dropped.add_unreadable(file, pair.line, *faulty)


def file_stamps(data: DataConfig, pairs: Iterable[Pair]) -> Iterator[str]:
    """A line for each file that pairs name: its path, size and time. It tells whether prepared data is still true."""
    numbers = [number for number, source in enumerate(data.sources) if is_file(source)]
    seen: set[str] = set()
    for pair in pairs:
        cells = pair.source.split(BETWEEN) if len(data.sources) > 1 else [pair.source]
        for number in numbers:
            if cells[number] not in seen:
                seen.add(cells[number])
                yield stamp_of(Path(cells[number]))


def stamp_of(path: Path) -> str:
    """Of a folder, what lies in it."""
    try:
        if path.is_dir():
            return "\n".join([str(path), *(stamp_of(Path(entry.path)) for entry in sorted_entries(path))])
        found = path.stat()
    except (OSError, ValueError):
        return f"{path} missing"
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def sorted_entries(folder: Path) -> list[os.DirEntry[str]]:
    """The files in it, by name."""
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if entry.is_file()), key=lambda entry: entry.name)
