"""Pairs as ids, or as paths and lengths: examples are held out, files scanned, the rest encoded."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np

from antiphon.config.schema import DataConfig
from antiphon.data.batches import reader_threads
from antiphon.data.build_source import combine_sources
from antiphon.data.corpus import FileCell
from antiphon.data.pairs import MOST_HELD_OUT, DropLog, Pair, file_paths, read_pairs
from antiphon.data.source import FileSource, Source, SourcePaths, UnreadableError, join_cells
from antiphon.data.tables import reads_lines
from antiphon.data.tokenizers import StreamTokenizer, Tokenizer
from antiphon.errors import DataError
from antiphon.text import format_reasons

__all__ = ["EncodedPair", "FileScan", "HoldOut", "PairEncoder", "nothing_usable", "source_names", "usable_pairs"]

REPORT_EVERY = 1000  # files between two progress messages
CHUNK = 4096  # pairs encoded at once


def nothing_usable(
    files: str | list[str],
    data: DataConfig,
    dropped: DropLog,
    fact: str = "not one line can be used",
    remedy: str | None = None,
) -> DataError:
    """The error for files without a usable example, with the reasons why their lines were dropped."""
    names = [files] if isinstance(files, str) else files
    reasons = sum((dropped.files[name] for name in names), Counter[str]())
    if remedy is None:
        plain = len(names) == 1 and reads_lines(file_paths(files)[0][1], data)
        sides = "data.source and data.target" if data.source else "data.target"
        remedy = "put one text on each line" if plain else f"check {sides} (column)"
        remedy += ", or raise max_length" if any("longer than" in reason for reason in reasons) else ""
    return DataError(f"{' and '.join(names)}: {fact} ({format_reasons(reasons) or 'only a header'}); {remedy}")


def source_names(data: DataConfig) -> list[str]:
    """The name of each source in the facts and on disk: source, or source[0] and so on."""
    return [data.place(number).removeprefix("data.") for number in range(len(data.sources))] or ["source"]


# The hold-out: examples of train that become dev, when data.dev is null.


@dataclass(frozen=True)
class HoldOut:
    """Sources whose hash is at most `limit` go to dev, with all their references; None: nothing does.

    A file counts by its path in the table, so it does not matter where the table lies. Texts without a source are
    chosen by the hash of the text. Of a stream the lines from `first_line` on are held out: holes in it would be seams.
    """

    limit: int | None = None
    first_line: int | None = None
    paths: SourcePaths | None = None

    @classmethod
    def choose(cls, data: DataConfig) -> HoldOut:
        """data.hold_out of the different sources or texts, or of the lines of a stream: at least 1, at most 2,000."""
        if data.dev is not None:
            return cls()
        pairs = read_pairs(data.train, data, DropLog())
        if data.window is not None:
            lines = np.frombuffer(array("q", (pair.line for pair in pairs)), np.int64)
            return cls(first_line=int(lines[-_held_out_count(data, len(lines))]))
        paths = SourcePaths.of_table(data, file_paths(data.train)[0][1])
        hashes = np.unique(np.frombuffer(array("Q", (_hash(pair, paths) for pair in pairs)), np.uint64))
        if not len(hashes):
            return cls()  # the caller reports that there are no pairs
        return cls(limit=int(hashes[_held_out_count(data, len(hashes)) - 1]), paths=paths)

    def holds(self, pair: Pair) -> bool:
        """True if a pair belongs to dev."""
        if self.first_line is not None:
            return pair.line >= self.first_line
        return self.limit is not None and _hash(pair, self.paths) <= self.limit


def _held_out_count(data: DataConfig, different: int) -> int:
    if different == 1:
        name = data.train if isinstance(data.train, str) else data.train[0]
        unit = "source" if data.source else "text" if data.window is None else "line"
        raise DataError(f"{name}: one {unit} only, so none can be held out; set data.dev or add examples")
    return min(max(1, round(data.hold_out * different)), MOST_HELD_OUT)


def _hash(pair: Pair, paths: SourcePaths | None) -> int:
    cells = paths.relative(pair.cells) if paths is not None and paths.needed else pair.key
    return int.from_bytes(hashlib.blake2b(join_cells(cells).encode(), digest_size=8).digest(), "big")


# Every file is read once before training, so that all that cannot be used are known at once.


@dataclass
class FileScan:
    """The files of one source: the length of each, or the fact that makes it unusable. Each is read once."""

    source: FileSource
    say: Callable[[str], None]
    longest: int  # of a longer file only the header is read: it is left out, and may be of any size
    lengths: dict[str, int] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """SHA-256 of everything read so far, in order."""
        return self._digest.hexdigest()

    def scan(self, paths: Iterable[str]) -> None:
        """Read the files that have not been read yet."""
        new = [path for path in dict.fromkeys(paths) if path not in self.lengths and path not in self.faults]
        with ThreadPoolExecutor(reader_threads()) as pool:
            for path, content in zip(new, pool.map(self._read, new), strict=True):
                if isinstance(content, UnreadableError):
                    self.faults[path] = str(content)
                else:
                    self.lengths[path] = content[0]
                    self._digest.update(content[1])
                count = len(self.lengths) + len(self.faults)
                if count % REPORT_EVERY == 0:
                    self.say(f"read {count:,} files ({self.source.kind})")

    def _read(self, path: str) -> tuple[int, bytes] | UnreadableError:
        """The length and the hash of a file."""
        try:
            length = self.source.length(path)
            values = self.source.read(path) if length <= self.longest else None
        except UnreadableError as error:
            return error
        return length, b"" if values is None else hashlib.sha256(values.tobytes()).digest()


def usable_pairs(files: str | list[str], data: DataConfig, source: Source, dropped: DropLog) -> Iterator[Pair]:
    """Every usable pair in the order of the file; sources that are files are all read before the first pair.

    DataError with all that cannot be read, unless data.skip_unreadable is true.
    """
    pairs = read_pairs(files, data, dropped)
    scans = {
        number: FileScan(part, lambda _: None, config.max_length)
        for number, (config, part) in enumerate(zip(data.sources, source.parts, strict=False))
        if isinstance(part, FileSource)
    }
    if not scans:
        return pairs
    readable: list[Pair] = []
    while chunk := list(islice(pairs, REPORT_EVERY)):
        readable += _readable(chunk, scans, files, dropped)
    dropped.refuse(data)
    return iter(readable)


def _readable(
    pairs: list[Pair], scans: dict[int, FileScan], files: str | list[str], dropped: DropLog
) -> Iterator[Pair]:
    """The pairs whose files can be read; the others are counted. `scans` has one for each source that is a file."""
    for number, scan in scans.items():
        scan.scan(pair.cells[number] for pair in pairs)
    for pair in pairs:
        paths = [(pair.cells[number], scan.faults) for number, scan in scans.items()]
        fault = next(((path, faults[path]) for path, faults in paths if path in faults), None)
        if fault is None:
            yield pair
        else:
            dropped.add_unreadable(files if isinstance(files, str) else files[0], pair.line, *fault)


class EncodedPair(NamedTuple):
    """A pair and its two sides as ids, or as a path and a length; `sources` has one for each source.

    A line of a stream has its line end at the end of its target.
    """

    pair: Pair
    sources: tuple[list[int] | FileCell, ...]
    target: list[int]


@dataclass(frozen=True)
class PairEncoder:
    """Pairs to ids; one that is too long for data.source or data.target, or cannot be read, is dropped and counted.

    A line of a stream may be of any length: the stream is cut into windows.
    """

    data: DataConfig
    sources: list[Tokenizer | FileScan]
    target: Tokenizer
    dropped: DropLog

    @property
    def source(self) -> Source:
        """All sources as one."""
        return combine_sources([part.source if isinstance(part, FileScan) else part for part in self.sources])

    @property
    def scans(self) -> dict[int, FileScan]:
        """The sources that are files, by number."""
        return {number: part for number, part in enumerate(self.sources) if isinstance(part, FileScan)}

    @property
    def texts(self) -> dict[str, Tokenizer]:
        """The sources that are texts, by name."""
        named = zip(source_names(self.data), self.sources, strict=False)
        return {name: part for name, part in named if isinstance(part, Tokenizer)}

    def chunks(self, files: str | list[str], pairs: Iterable[Pair]) -> Iterator[list[EncodedPair]]:
        """The pairs of some files that are short enough, many at a time."""
        pairs, scans = iter(pairs), self.scans
        while chunk := list(islice(pairs, CHUNK)):
            chunk = list(_readable(chunk, scans, files, self.dropped))
            rows = map(EncodedPair, chunk, self._encode_sources(chunk), self._encode_targets(chunk))
            yield [row for row in rows if self.data.window is not None or self._is_short(files, row)]

    def _encode_sources(self, pairs: list[Pair]) -> Iterable[tuple[list[int] | FileCell, ...]]:
        if self.data.source is None:
            return repeat((), len(pairs))
        columns: list[Sequence[list[int] | FileCell]] = []
        for number, source in enumerate(self.sources):
            cells = [pair.cells[number] for pair in pairs]
            if isinstance(source, FileScan):
                columns.append([FileCell(path, source.lengths[path]) for path in cells])
            else:
                columns.append(source.encode_batch(cells))
        return zip(*columns, strict=True)

    def _encode_targets(self, pairs: list[Pair]) -> list[list[int]]:
        if self.data.window is None:
            return self.target.encode_batch([pair.target for pair in pairs])
        return StreamTokenizer(self.target).encode_batch([f"{pair.target}\n" for pair in pairs])

    def _is_short(self, files: str | list[str], row: EncodedPair) -> bool:
        source_file, target_file = (files, files) if isinstance(files, str) else files
        for name, config, part in zip(source_names(self.data), self.data.sources, row.sources, strict=False):
            if len(part) > config.max_length:
                unit = "positions" if isinstance(part, FileCell) else "tokens"
                self.dropped.add(source_file, row.pair.line, f"{name} longer than {config.max_length} {unit}")
                return False
        longest = self.data.target.max_length
        if len(row.target) > longest:
            side = "target" if self.data.source else "text"
            self.dropped.add(target_file, row.pair.line, f"{side} longer than {longest} tokens")
            return False
        return True
