"""Lines as records: the columns of TSV and CSV, the keys of JSONL."""

from __future__ import annotations

import csv
import difflib
import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.config.schema import DataConfig
from antiphon.errors import DataError
from antiphon.sources.lines import Line

__all__ = ["Record", "read_records"]

# A quoted field of CSV may go on over so many lines; beyond that the quote was meant as a plain character.
QUOTED_LINES = 100
# So many keys are remembered, to be named when the right one is missing.
KEYS = 20

Column = int | str


class Record(NamedTuple):
    """What one line holds, or the fault that makes it useless."""

    line: int
    source: str = ""
    targets: tuple[str, ...] = ()
    fault: str = ""


class Row(NamedTuple):
    """The cells of one line of a table, or a fault."""

    line: int
    cells: list[str]
    fault: str = ""


def read_records(path: Path, lines: Iterator[Line], data: DataConfig) -> Iterator[Record]:
    """JSONL or CSV if the suffix (before .gz) says so, else TSV."""
    suffix = Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()
    if suffix == ".jsonl":
        return _json_records(path, lines, data)
    return _table_records(path, _csv_rows(lines) if suffix == ".csv" else _tsv_rows(lines), data)


def _table_records(path: Path, rows: Iterator[Row], data: DataConfig) -> Iterator[Record]:
    """The first line that can be read sets the number of columns."""
    source, targets = _columns(data)
    for first in rows:
        if not first.fault:
            break
        yield Record(first.line, fault=first.fault)
    else:
        return
    named = any(isinstance(column, str) for column in (source, *targets))
    header = named if data.header is None else data.header
    if named and not header:
        raise DataError(f"{path}: columns are given by name but data.header is false; set it to true, or give numbers")
    numbers = [_number(path, column, first.cells, header) for column in (source, *targets)]
    if not header:
        yield _record(first, len(first.cells), numbers)
    for row in rows:
        yield _record(row, len(first.cells), numbers)


def _json_records(path: Path, lines: Iterator[Line], data: DataConfig) -> Iterator[Record]:
    """JSONL: an object on each line; columns are keys, and a list of strings is several references."""
    source, targets = _columns(data)
    missing = {str(column) for column in (source, *targets)}
    seen: dict[str, None] = {}
    for line in lines:
        value = _json_object(line.text)
        if isinstance(value, str):
            yield Record(line.number, fault=value)
            continue
        missing -= value.keys()
        if len(seen) < KEYS:
            seen.update(dict.fromkeys(value))
        yield _json_record(line.number, value, str(source), [str(target) for target in targets])
    if missing and seen:
        raise DataError([_no_such_column(path, name, list(seen), "key") for name in sorted(missing)])


def _columns(data: DataConfig) -> tuple[Column, list[Column]]:
    """The source's column and the columns of the references."""
    source, target = data.source.column, data.target.column
    if isinstance(source, list):
        if len(source) != 1:
            raise DataError(f"data.source.column: {len(source)} columns; a source is one column")
        source = source[0]
    return source, target if isinstance(target, list) else [target]


def _tsv_rows(lines: Iterator[Line]) -> Iterator[Row]:
    for line in lines:
        if line.text.strip():
            yield Row(line.number, line.text.split("\t"))
        else:
            yield Row(line.number, [], "empty line")


def _csv_rows(lines: Iterator[Line]) -> Iterator[Row]:
    """Comma-separated; a quoted field may hold commas, doubled quotes and line ends."""
    ahead: deque[Line] = deque()
    while True:
        line = ahead.popleft() if ahead else next(lines, None)
        if line is None:
            return
        if not line.text.strip():
            yield Row(line.number, [], "empty line")
        elif '"' not in line.text:
            yield Row(line.number, line.text.split(","))
        else:
            yield _quoted_row(line, lines, ahead)


def _quoted_row(first: Line, lines: Iterator[Line], ahead: deque[Line]) -> Row:
    """A row with quotes. If its last quote never closes, only the first line is lost: the rest is read again."""
    taken: list[Line] = []

    def feed() -> Iterator[str]:
        yield first.text + "\n"
        while len(taken) < QUOTED_LINES:
            line = ahead.popleft() if ahead else next(lines, None)
            if line is None:
                return
            taken.append(line)
            yield line.text + "\n"

    try:
        return Row(first.number, next(csv.reader(feed(), strict=True)))
    except csv.Error as error:
        ahead.extendleft(reversed(taken))
        fault = "a quote is not closed" if "end of data" in str(error) else f"not CSV: {error}"
        return Row(first.number, [], fault)


def _number(path: Path, column: Column, cells: list[str], header: bool) -> int:
    """The position of a column, given by number or by name."""
    if isinstance(column, int):
        if 0 <= column < len(cells):
            return column
        known = ", ".join(f"{number} ({cell[:20]!r})" for number, cell in enumerate(cells[:20]))
        raise DataError(f"{path}: no column {column}; the first line has {known}")
    names = [cell.strip() for cell in cells]
    if header and column in names:
        return names.index(column)
    raise DataError(_no_such_column(path, column, names, "column"))


def _no_such_column(path: Path, name: str, names: list[str], what: str) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"{path}: no {what} {name!r}; {guess}it has {', '.join(repr(known[:40]) for known in names[:20])}"


def _record(row: Row, width: int, numbers: list[int]) -> Record:
    if row.fault:
        return Record(row.line, fault=row.fault)
    cells = row.cells
    if len(cells) != width:
        return Record(row.line, fault="too many columns" if len(cells) > width else "too few columns")
    return Record(row.line, cells[numbers[0]], tuple(cells[number] for number in numbers[1:]))


def _json_object(text: str) -> dict[str, Any] | str:
    """The object on a line, or what is wrong with it."""
    if not text.strip():
        return "empty line"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "not JSON"
    return value if isinstance(value, dict) else "not a JSON object"


def _json_record(line: int, value: dict[str, Any], source: str, targets: list[str]) -> Record:
    for key in (source, *targets):
        if key not in value:
            return Record(line, fault=f"no key {key!r}")
    references: list[Any] = []
    for key in targets:
        references.extend(value[key] if isinstance(value[key], list) else [value[key]])
    for text in (value[source], *references):
        if not isinstance(text, str):
            return Record(line, fault="a value is not a string")
        if not _is_unicode(text):
            return Record(line, fault="half of a surrogate pair")
    return Record(line, value[source], tuple(references))


def _is_unicode(text: str) -> bool:
    """JSON can spell half a character (\\ud800), which no file can hold."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
