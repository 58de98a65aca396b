"""Pairs as ids, or as paths and lengths: files are scanned first, examples held out, the rest encoded."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from antiphon.config.schema import DataConfig
from antiphon.data.batches import reading_threads
from antiphon.data.build_source import is_file, joined
from antiphon.data.corpus import Cell
from antiphon.data.pairs import Dropped, Pair, Paths, file_paths, read_pairs
from antiphon.data.source import BETWEEN, FileSource, Source, UnreadableError
from antiphon.data.tables import reads_lines
from antiphon.data.tokenizers import StreamTokenizer, Tokenizer
from antiphon.errors import DataError
from antiphon.text import by_reason

__all__ = [
    "Encoded",
    "Encoder",
    "HoldOut",
    "Looked",
    "file_stamps",
    "nothing_usable",
    "part_of",
    "source_names",
    "stamp_of",
    "text_names",
    "usable_pairs",
]


def nothing_usable(files: str | list[str], data: DataConfig, dropped: Dropped) -> DataError:
    """Not one line of a file can be used, and why."""
    names = files if isinstance(files, str) else " and ".join(files)
    sides = "data.source and data.target" if data.source else "data.target"
    lines = isinstance(files, str) and reads_lines(file_paths(files)[0][1], data)
    remedy = "put one text on each line" if lines else f"check {sides} (column)"
    why = by_reason(dropped.reasons) or "only a header"
    return DataError(f"{names}: not one line can be used ({why}); {remedy}")


# Every file of the data is read once before training, so that all that cannot be used are known at once.

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


# Which examples of train become dev, when none is given.

MOST_HELD_OUT = 2000


@dataclass(frozen=True)
class HoldOut:
    """Sources whose hash is at most `limit` go to dev, with all their references; None: nothing does.

    A file counts by its path in the table, so it does not matter where the table lies. Texts without a source are
    chosen by the hash of the text. Of a stream the lines from `first_line` on are held out: holes in it would be seams.
    """

    limit: int | None = None
    first_line: int | None = None
    paths: Paths | None = None

    @classmethod
    def choose(cls, data: DataConfig) -> HoldOut:
        """data.hold_out of the different sources or texts, or of the lines of a stream: at least 1, at most 2,000."""
        if data.dev is not None:
            return cls()
        pairs = read_pairs(data.train, data, Dropped())
        if data.window is not None:
            lines = np.frombuffer(array("q", (pair.line for pair in pairs)), np.int64)
            return cls(first_line=int(lines[-_count(data, len(lines))]))
        paths = Paths.of_table(data, file_paths(data.train)[0][1])
        different = np.unique(np.frombuffer(array("Q", (_hash(pair, paths) for pair in pairs)), np.uint64))
        if not len(different):
            return cls()  # whoever reads the pairs will say so
        return cls(limit=int(different[_count(data, len(different)) - 1]), paths=paths)

    def holds(self, pair: Pair) -> bool:
        """Whether a pair belongs to dev."""
        if self.first_line is not None:
            return pair.line >= self.first_line
        return self.limit is not None and _hash(pair, self.paths) <= self.limit


def part_of(what: str, percent: str) -> str:
    """What is held out, in words: of the sources or texts, or of the lines of a stream."""
    return f"{'the last ' if what == 'lines' else ''}{percent} of the {what} (at most {MOST_HELD_OUT:,})"


def _count(data: DataConfig, different: int) -> int:
    if different == 1:
        name = data.train if isinstance(data.train, str) else data.train[0]
        what = "source" if data.source else "text" if data.window is None else "line"
        raise DataError(f"{name}: one {what} only, so none can be held out; set data.dev or add examples")
    return min(max(1, round(data.hold_out * different)), MOST_HELD_OUT)


def _hash(pair: Pair, paths: Paths | None) -> int:
    text = pair.source or pair.target
    if paths is not None and paths.needed:
        text = paths.relative(text)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


# Pairs as ids, or as paths and lengths: what fits is kept, what does not is counted.

CHUNK = 4096


class Encoded(NamedTuple):
    """A pair and its two sides as ids, or as a path and a length; `sources` has one for each source.

    A line of a stream has its line end at the end of its target.
    """

    pair: Pair
    sources: tuple[list[int] | Cell, ...]
    target: list[int]


@dataclass(frozen=True)
class Encoder:
    """Pairs to ids; one that is too long for data.source or data.target, or cannot be read, is dropped and counted.

    A line of a stream may be of any length: the stream is cut into windows.
    """

    data: DataConfig
    sources: list[Tokenizer | Looked]
    target: Tokenizer
    dropped: Dropped

    @property
    def source(self) -> Source:
        """All of them as one."""
        return joined([one.source if isinstance(one, Looked) else one for one in self.sources])

    @property
    def texts(self) -> dict[str, Tokenizer]:
        """The sources that are texts, by the names of their sides."""
        names = zip(source_names(self.data), self.sources, strict=False)
        return {name: one for name, one in names if isinstance(one, Tokenizer)}

    def chunks(self, files: str | list[str], pairs: Iterable[Pair]) -> Iterator[list[Encoded]]:
        """The pairs of some files that are short enough, many at a time."""
        pairs = iter(pairs)
        while chunk := list(islice(pairs, CHUNK)):
            chunk, sources = self._sources(files, chunk)
            rows = map(Encoded, chunk, sources, self._targets(chunk))
            yield [row for row in rows if self.data.window is not None or self._is_short(files, row)]

    def _sources(
        self, files: str | list[str], chunk: list[Pair]
    ) -> tuple[list[Pair], list[tuple[list[int] | Cell, ...]]]:
        """The pairs whose files can be read, and their sources."""
        if self.data.source is None:
            return chunk, [() for _ in chunk]
        several = len(self.sources) > 1
        cells = [pair.source.split(BETWEEN) if several else [pair.source] for pair in chunk]
        columns = [self._column(one, [row[n] for row in cells]) for n, one in enumerate(self.sources)]
        kept, sources = [], []
        for pair, row, parts in zip(chunk, cells, zip(*columns, strict=True), strict=True):
            found = tuple(part for part in parts if part is not None)
            if len(found) == len(parts):
                kept.append(pair)
                sources.append(found)
            else:
                self._unreadable(files, pair, row)
        return kept, sources

    def _column(self, source: Tokenizer | Looked, cells: list[str]) -> Sequence[list[int] | Cell | None]:
        if isinstance(source, Tokenizer):
            return source.encode_batch(cells)
        source.at(cells)
        return [source.cell(cell) for cell in cells]

    def _unreadable(self, files: str | list[str], pair: Pair, cells: list[str]) -> None:
        name = files if isinstance(files, str) else files[0]
        for source, cell in zip(self.sources, cells, strict=True):
            if isinstance(source, Looked) and cell in source.faults:
                self.dropped.add_unreadable(name, pair.line, cell, source.faults[cell])
                return

    def _targets(self, chunk: list[Pair]) -> list[list[int]]:
        if self.data.window is None:
            return self.target.encode_batch([pair.target for pair in chunk])
        return StreamTokenizer(self.target).encode_batch([f"{pair.target}\n" for pair in chunk])

    def _is_short(self, files: str | list[str], row: Encoded) -> bool:
        source_file, target_file = (files, files) if isinstance(files, str) else files
        for name, config, part in zip(source_names(self.data), self.data.sources, row.sources, strict=False):
            if len(part) > config.max_length:
                unit = "positions" if isinstance(part, Cell) else "tokens"
                self.dropped.add(source_file, row.pair.line, f"{name} longer than {config.max_length} {unit}")
                return False
        if len(row.target) > self.data.target.max_length:
            side = "target" if self.data.source else "text"
            longest = self.data.target.max_length
            self.dropped.add(target_file, row.pair.line, f"{side} longer than {longest} tokens")
            return False
        return True


def source_names(data: DataConfig) -> list[str]:
    """What each source is called in the facts and on disk: source, or source[0] and so on."""
    return [data.place(number).removeprefix("data.") for number in range(len(data.sources))] or ["source"]


def text_names(data: DataConfig) -> list[str]:
    both = zip(source_names(data), data.sources, strict=False)
    return [name for name, source in both if not is_file(source)]
