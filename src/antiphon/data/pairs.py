"""From files to pairs of source and target text: TSV, CSV, JSONL or two parallel files, each also as gzip.

A language model reads texts, one a line of a plain file or one column of a table: pairs whose source is empty.

A line that cannot be used is dropped, counted by reason and listed; a file that cannot be used is a DataError.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.config.schema import DataConfig, TextConfig
from antiphon.data import datasets
from antiphon.data.lines import Line, read_lines
from antiphon.data.source import BETWEEN, UnreadableError
from antiphon.data.tables import Record, read_records
from antiphon.errors import DataError
from antiphon.text import amount

__all__ = ["Dropped", "Example", "Pair", "Paths", "Place", "file_paths", "group", "read_pairs"]

# Where the files lie that a table names: below the folder of the table, or below data.source.folder.


@dataclass(frozen=True)
class Paths:
    """Turns the cells of sources that are files into paths. `folders` has one for each source; None: it is a text."""

    folders: tuple[str | None, ...]
    inside: bool = True  # a path may not leave its folder

    @classmethod
    def of_table(cls, data: DataConfig, table: Path) -> Paths:
        """Those that a table names may not leave the folder: whoever wrote it may not be whoever reads it."""
        return cls(tuple(_folder(source, table) for source in data.sources))

    @classmethod
    def of_lines(cls, data: DataConfig, file: str | None) -> Paths:
        """Lines that a user gives are relative to the file they stand in, or to where the user is."""
        folder = str(Path(file).parent) if file is not None else "."
        texts = [isinstance(source, TextConfig) for source in data.sources]
        return cls(tuple(None if text else folder for text in texts), inside=False)

    @property
    def needed(self) -> bool:
        """Whether there is anything to do: a file, or several cells."""
        return len(self.folders) > 1 or any(folder is not None for folder in self.folders)

    def resolved(self, text: str) -> str:
        """The same cells with paths that can be opened; UnreadableError if one of a table leaves, or is empty."""
        if not self.needed:
            return text
        cells = text.split(BETWEEN) if len(self.folders) > 1 else [text]
        if len(cells) != len(self.folders):
            return text  # what reads them says so
        both = zip(cells, self.folders, strict=True)
        return BETWEEN.join(cell if folder is None else self._below(folder, cell) for cell, folder in both)

    def relative(self, text: str) -> str:
        """Cells as the table names them: the same wherever its folder lies."""
        if not self.needed:
            return text
        cells = text.split(BETWEEN) if len(self.folders) > 1 else [text]
        both = zip(cells, self.folders, strict=True)
        return BETWEEN.join(cell if folder is None else os.path.relpath(cell, folder) for cell, folder in both)

    def _below(self, folder: str, cell: str) -> str:
        if not cell.strip():
            if self.inside:
                raise UnreadableError("an empty path")
            return ""  # of lines, whatever reads them says so, with all else that cannot be read
        path = os.path.normpath(os.path.join(folder, cell.strip()))
        if self.inside and not _is_below(path, folder):
            raise UnreadableError(f"it leaves the folder {folder}")
        return path


def _folder(source: object, table: Path) -> str | None:
    if isinstance(source, TextConfig):
        return None
    own = getattr(source, "folder", None)
    return str(table.parent) if own is None else str(own)


def _is_below(path: str, folder: str) -> bool:
    """By their names: a link inside the folder is the user's own."""
    base, whole = os.path.abspath(folder), os.path.abspath(path)
    return whole != base and os.path.commonpath([base, whole]) == base


LISTED = 20  # places of each reason
MOST_LISTED = 1000  # files that cannot be read; the rest is counted


class Pair(NamedTuple):
    """One source and one target; `line` is where it stands in its file."""

    source: str
    target: str
    line: int


@dataclass(frozen=True, slots=True)
class Example:
    """One source and every target that is right for it; `line` is where it stands first."""

    source: str
    references: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line was dropped, and why."""

    file: str
    line: int
    reason: str
    path: str = ""  # of a file that cannot be used


@dataclass
class Dropped:
    """Counts what was left out and lists the first places of each reason; also counts the lines read of each file.

    `unreadable` are all places whose file cannot be used: `refuse` makes errors of them, unless they are to be skipped.
    """

    reasons: Counter[str] = field(default_factory=Counter)
    files: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    places: list[Place] = field(default_factory=list)
    lines: Counter[str] = field(default_factory=Counter)
    unreadable: list[Place] = field(default_factory=list)

    def add(self, file: str, line: int, reason: str, path: str = "") -> None:
        """Count one more."""
        self.reasons[reason] += 1
        self.files[file][reason] += 1
        if self.reasons[reason] <= LISTED:
            self.places.append(Place(file, line, reason, path))

    def add_unreadable(self, file: str, line: int, path: str, fact: str) -> None:
        """Count one more whose file cannot be used."""
        self.add(file, line, f"unreadable: {fact}", path)
        self.unreadable.append(Place(file, line, fact, path))

    def refuse(self, data: DataConfig) -> None:
        """DataError with every file that cannot be used, unless data.skip_unreadable is true."""
        if not self.unreadable or data.skip_unreadable:
            return
        listed = [
            f"{place.file}, line {place.line}: {place.path}{': ' if place.path else ''}{place.reason}"
            for place in self.unreadable[:MOST_LISTED]
        ]
        more = len(self.unreadable) - len(listed)
        count = amount(len(self.unreadable), "examples")
        remedy = f"{count} cannot be read; mend or remove them, or set data.skip_unreadable to true to leave them out"
        raise DataError([*listed, *([f"and {more:,} more"] if more else []), remedy])

    @property
    def total(self) -> int:
        """How many were left out."""
        return self.reasons.total()

    def facts(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        places = [
            {
                "file": place.file,
                "line": place.line,
                "reason": place.reason,
                **({"path": place.path} if place.path else {}),
            }
            for place in self.places
        ]
        files = {file: dict(reasons.most_common()) for file, reasons in self.files.items()}
        return {"total": self.total, "reasons": dict(self.reasons.most_common()), "files": files, "places": places}


def file_paths(files: str | list[str], say: Callable[[str], None] = lambda _: None) -> list[tuple[str, Path]]:
    """Each file's name as it was given, and its path; @NAME/SPLIT is made if need be, which may take a while."""
    names = [files] if isinstance(files, str) else files
    return [(name, datasets.resolve(name, say) if name.startswith("@") else Path(name)) for name in names]


def read_pairs(files: str | list[str], data: DataConfig, dropped: Dropped, *, table: bool = False) -> Iterator[Pair]:
    """Every usable pair in the order of the file; a line with several references gives several pairs.

    With `table` one file has columns whatever its name is. Paths are resolved, and a row whose path leaves its folder
    is left out; whether a file can be read, whoever reads it says. `dropped.refuse` makes errors of both.
    """
    named = file_paths(files)
    if len(named) == 2 and data.source is None:
        names = " and ".join(name for name, _ in named)
        raise DataError(f"{names}: a language model reads one file of texts, not two side by side; give one of them")
    if len(named) == 2:
        yield from _parallel(named, data, dropped)
        return
    [(name, path)] = named
    lines = _counted(name, read_lines(path), dropped)
    paths = Paths.of_table(data, path)
    if paths.needed:
        for record in read_records(path, lines, data, table=table):
            yield from _located(name, record, paths, dropped)
        return
    for record in read_records(path, lines, data, table=table):
        targets = record.targets
        if len(targets) == 1 and record.source.strip() and targets[0].strip():  # nearly every line, so no detour
            yield Pair(record.source, targets[0], record.line)
        elif data.source is None:
            yield from _texts_of(name, record, data, dropped)
        else:
            yield from _pairs_of(name, record, dropped)


def group(pairs: Iterable[Pair]) -> list[Example]:
    """One example for each source, in the order they are first seen; equal references count once.

    Texts without a source stay as they are: how often a text is said is what a language model learns.
    """
    found: dict[str | int, tuple[Pair, dict[str, None]]] = {}
    for pair in pairs:
        _, references = found.setdefault(pair.source or len(found), (pair, {}))
        references[pair.target] = None
    return [Example(first.source, tuple(references), first.line) for first, references in found.values()]


def _counted(name: str, lines: Iterator[Line], dropped: Dropped) -> Iterator[Line]:
    """The lines, counted as they go by."""
    number = 0
    try:
        for line in lines:
            number = line.number
            yield line
    finally:
        dropped.lines[name] = number


def _pairs_of(name: str, record: Record, dropped: Dropped) -> Iterator[Pair]:
    """The pairs of one record, or the reason why there are none."""
    if record.fault:
        dropped.add(name, record.line, record.fault)
    elif not record.source.strip():
        dropped.add(name, record.line, "empty source")
    else:
        targets = [target for target in record.targets if target.strip()]
        if not targets:
            dropped.add(name, record.line, "empty target")
        for target in targets:
            yield Pair(record.source, target, record.line)


def _located(name: str, record: Record, paths: Paths, dropped: Dropped) -> Iterator[Pair]:
    """The pairs of one record whose source is a file, or several cells."""
    for pair in _pairs_of(name, record, dropped):
        try:
            yield pair._replace(source=paths.resolved(pair.source))
        except UnreadableError as error:
            dropped.add_unreadable(name, pair.line, pair.source, str(error))
            return


def _texts_of(name: str, record: Record, data: DataConfig, dropped: Dropped) -> Iterator[Pair]:
    """The texts of one record without a source; only a stream has empty ones."""
    if record.fault:
        dropped.add(name, record.line, record.fault)
        return
    texts = [text for text in record.targets if text.strip() or data.window is not None]
    if not texts:
        dropped.add(name, record.line, "empty text")
    for text in texts:
        yield Pair("", text, record.line)


def _parallel(named: list[tuple[str, Path]], data: DataConfig, dropped: Dropped) -> Iterator[Pair]:
    """Line n of the first file with line n of the second."""
    (source_name, source_path), (target_name, target_path) = named
    sources = _counted(source_name, read_lines(source_path), dropped)
    targets = _counted(target_name, read_lines(target_path), dropped)
    paths = Paths.of_table(data, source_path)
    counts = [0, 0]
    for source, target in itertools.zip_longest(sources, targets):
        counts = [counts[0] + (source is not None), counts[1] + (target is not None)]
        if source is None or target is None or (data.header and source.number == 1):
            continue
        if not source.text.strip():
            dropped.add(source_name, source.number, "empty source")
        elif not target.text.strip():
            dropped.add(target_name, target.number, "empty target")
        else:
            yield from _located(source_name, Record(source.number, source.text, (target.text,)), paths, dropped)
    if counts[0] != counts[1]:
        raise DataError(
            f"{source_path} has {counts[0]:,} lines but {target_path} has {counts[1]:,}; "
            "line n of one file answers line n of the other, so find the missing line"
        )
