"""Pairs of source and target from a table (TSV, CSV, JSON, JSONL, parquet, xlsx) or two parallel files.

A language model reads texts, one per line of a plain file or in one column of a table: pairs without a source.

A line that cannot be used is dropped, counted by reason and listed; a file that cannot be used is a DataError.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from antiphon.config.schema import DataConfig
from antiphon.data.lines import Line, read_lines
from antiphon.data.source import Cells, SourcePaths, UnreadableError, join_cells, split_cells
from antiphon.data.tables import ParsedLine, has_lines, parse_lines
from antiphon.errors import DataError
from antiphon.text import plural, split_at_spaces

__all__ = ["MOST_HELD_OUT", "DropLog", "Example", "Pair", "describe_hold_out", "file_paths", "group", "read_pairs"]

MOST_HELD_OUT = 2000  # examples that become dev if there is no file for it
LISTED = 20  # lines of each reason
MOST_LISTED = 1000  # files that cannot be read; the rest is counted
Numbered = TypeVar("Numbered", Line, ParsedLine)  # the number comes first


class Pair(NamedTuple):
    """One source and one target; `cells` has one for each source, `line` is the number in the file."""

    cells: Cells
    target: str
    line: int

    @property
    def source(self) -> str:
        """The source as a line of text, as `Generator.generate` reads it."""
        return join_cells(self.cells)

    @property
    def key(self) -> Cells:
        """The source; of a text without one, the text."""
        return self.cells or (self.target,)


@dataclass(frozen=True, slots=True)
class Example:
    """One source and all its references; `line` is the number of its first line in the file."""

    cells: Cells
    references: tuple[str, ...]
    line: int

    @property
    def source(self) -> str:
        """The source as a line of text, as `Generator.generate` reads it."""
        return join_cells(self.cells)

    @property
    def key(self) -> Cells:
        """The source; of a text without one, the text."""
        return self.cells or self.references[:1]


@dataclass(frozen=True, slots=True)
class DroppedLine:
    """A line that was left out, and the reason."""

    file: str
    line: int
    reason: str
    path: str = ""  # of a file that cannot be used

    def facts(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "path" or value}


@dataclass
class DropLog:
    """Counts the lines that were left out and lists the first of each reason; also counts the lines of each file.

    `unreadable` are all lines whose file cannot be used: `refuse` makes errors of them, unless they are to be skipped.
    """

    reasons: Counter[str] = field(default_factory=Counter)
    files: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    listed: list[DroppedLine] = field(default_factory=list)
    lines: Counter[str] = field(default_factory=Counter)
    unreadable: list[DroppedLine] = field(default_factory=list)

    def add(self, file: str, line: int, reason: str, path: str = "") -> None:
        """Count one more line."""
        self.reasons[reason] += 1
        self.files[file][reason] += 1
        if self.reasons[reason] <= LISTED:
            self.listed.append(DroppedLine(file, line, reason, path))

    def add_unreadable(self, file: str, line: int, path: str, fact: str) -> None:
        """Count one more line whose file cannot be used."""
        self.add(file, line, f"unreadable: {fact}", path)
        self.unreadable.append(DroppedLine(file, line, fact, path))

    def refuse(self, data: DataConfig) -> None:
        """DataError with every file that cannot be used, unless data.skip_unreadable is true."""
        if not self.unreadable or data.skip_unreadable:
            return
        listed = [
            f"{dropped.file}, line {dropped.line}: {dropped.path}{': ' if dropped.path else ''}{dropped.reason}"
            for dropped in self.unreadable[:MOST_LISTED]
        ]
        more = len(self.unreadable) - len(listed)
        count = plural(len(self.unreadable), "examples")
        remedy = f"{count} cannot be read; repair or remove them, or set data.skip_unreadable to true to leave them out"
        raise DataError([*listed, *([f"and {more:,} more"] if more else []), remedy])

    @property
    def total(self) -> int:
        """The number of lines left out."""
        return self.reasons.total()

    def facts(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        files = {file: dict(reasons.most_common()) for file, reasons in self.files.items()}
        places = [dropped.facts() for dropped in self.listed]
        return {"total": self.total, "reasons": dict(self.reasons.most_common()), "files": files, "places": places}


def file_paths(files: str | list[str], say: Callable[[str], None] = lambda _: None) -> list[tuple[str, Path]]:
    """The name of each file as the user gave it, and its path; @NAME/SPLIT is made first, which may take a while."""
    return [(name, _file_path(name, say)) for name in ([files] if isinstance(files, str) else files)]


def _file_path(name: str, say: Callable[[str], None]) -> Path:
    if not name.startswith("@"):
        return Path(name)
    from antiphon.data.datasets import resolve

    return resolve(name, say)


def read_pairs(files: str | list[str], data: DataConfig, dropped: DropLog, *, table: bool = False) -> Iterator[Pair]:
    """Every usable pair in the order of the file; a line with several references gives several pairs.

    With `table` one file has columns whatever its name is. Paths are resolved, and a row whose path leaves its folder
    is left out; files are not opened here. `dropped.refuse` makes errors of what cannot be read.
    """
    named = file_paths(files)
    if len(named) == 2 and data.source is None:
        names = " and ".join(name for name, _ in named)
        raise DataError(f"{names}: a language model reads one file of texts, not two side by side; give one of them")
    name, path = named[0]
    paths = SourcePaths.of_table(data, path)
    if len(named) == 2:
        rows = _parallel(named, data, dropped)
    elif has_lines(path):
        rows = parse_lines(path, data, _count_lines(name, read_lines(path), dropped), table=table)
    else:
        rows = _count_lines(name, parse_lines(path, data), dropped)
    for row in rows:
        pairs = _texts(name, row, data, dropped) if data.source is None else _pairs(name, row, data, dropped)
        yield from _resolved(name, pairs, paths, dropped) if paths.needed else pairs


def group(pairs: Iterable[Pair]) -> list[Example]:
    """One example for each source, in the order they are first seen; equal references count once.

    Texts without a source stay as they are: a language model learns how often a text occurs.
    """
    groups: dict[Cells | int, tuple[Pair, dict[str, None]]] = {}
    for pair in pairs:
        _, references = groups.setdefault(pair.cells or len(groups), (pair, {}))
        references[pair.target] = None
    return [Example(first.cells, tuple(references), first.line) for first, references in groups.values()]


def describe_hold_out(unit: str, percent: str) -> str:
    """The hold-out in words; `unit` is sources, texts or, of a stream, lines."""
    return f"{'the last ' if unit == 'lines' else ''}{percent} of the {unit} (at most {MOST_HELD_OUT:,})"


def _count_lines(name: str, lines: Iterator[Numbered], dropped: DropLog) -> Iterator[Numbered]:
    number = 0
    try:
        for line in lines:
            number = line[0]
            yield line
    finally:
        dropped.lines[name] = number


def _pairs(name: str, row: ParsedLine, data: DataConfig, dropped: DropLog) -> list[Pair]:
    """The pairs of one line; if there are none, the reason is counted."""
    if row.fault:
        dropped.add(name, row.line, row.fault)
        return []
    if not any(map(str.strip, row.cells)):
        dropped.add(name, row.line, "empty source")
        return []
    pairs = [Pair(row.cells, target, row.line) for target in row.targets if target.strip()]
    if not pairs:
        dropped.add(name, row.line, "empty target")
    if not data.labels or all(_is_labelled(pair, data) for pair in pairs):
        return pairs
    dropped.add(name, row.line, "unequal numbers of tokens and labels")
    return []


def _is_labelled(pair: Pair, data: DataConfig) -> bool:
    """True if there is one label for each token."""
    split = split_at_spaces if data.text is not None and data.text.affixes else str.split
    return len(split(pair.source)) == len(pair.target.split())


def _texts(name: str, row: ParsedLine, data: DataConfig, dropped: DropLog) -> list[Pair]:
    """The texts of one line without a source; only a stream has empty ones."""
    texts = [Pair((), text, row.line) for text in row.targets if text.strip() or data.window is not None]
    if not texts:
        dropped.add(name, row.line, row.fault or "empty text")
    return texts


def _resolved(name: str, pairs: list[Pair], paths: SourcePaths, dropped: DropLog) -> Iterator[Pair]:
    """The pairs of one line with paths that can be opened."""
    for pair in pairs:
        try:
            yield pair._replace(cells=paths.resolve(pair.cells))
        except UnreadableError as error:
            dropped.add_unreadable(name, pair.line, pair.source, str(error))
            return


def _parallel(named: list[tuple[str, Path]], data: DataConfig, dropped: DropLog) -> Iterator[ParsedLine]:
    """Line n of the first file with line n of the second."""
    (source_name, source_path), (target_name, target_path) = named
    sources = _count_lines(source_name, read_lines(source_path), dropped)
    targets = _count_lines(target_name, read_lines(target_path), dropped)
    counts = [0, 0]
    for left, right in itertools.zip_longest(sources, targets):
        counts = [counts[0] + (left is not None), counts[1] + (right is not None)]
        if left is None or right is None or (data.header and left.number == 1):
            continue
        if left.text.strip() and not right.text.strip():
            dropped.add(target_name, right.number, "empty target")
        else:
            cells = split_cells(left.text, len(data.sources))
            fault = "" if len(cells) == len(data.sources) else f"{len(cells)} cells for {len(data.sources)} sources"
            yield ParsedLine(left.number, cells, (right.text,), fault)
    if counts[0] != counts[1]:
        raise DataError(
            f"{source_path} has {counts[0]:,} lines but {target_path} has {counts[1]:,}; "
            "line n of one file answers line n of the other, so find the missing line"
        )
