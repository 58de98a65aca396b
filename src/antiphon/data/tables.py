"""Lines as rows: the columns of TSV and CSV, the keys of JSONL, the lines of plain text."""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from antiphon.config.checks import data_problems
from antiphon.config.schema import DataConfig
from antiphon.data.lines import Line
from antiphon.data.source import Cells
from antiphon.errors import DataError
from antiphon.text import nearest, visible

__all__ = ["ParsedLine", "file_format", "is_plain_text", "parse_lines", "read_table_rows", "reads_lines", "typical_row"]

HEAD = 100  # lines that tell the number of columns of a table without a header
QUOTED_LINES = 100  # of a quoted field of CSV; in a longer one the quote was meant as a plain character
KEYS = 20  # of JSONL that are listed when the right one is missing
# Messages of the csv module, and ours.
CSV_FAULTS = {
    "unexpected end of data": "a quote is not closed",
    "field larger than field limit": f"a quoted field of more than {csv.field_size_limit():,} characters",
    "new-line character seen": "a carriage return in a line with quotes",
}

Format = Literal["tsv", "csv", "jsonl"]


class Column(NamedTuple):
    """A column by number or name, and the key of the configuration that names it."""

    key: str
    name: int | str


class ParsedLine(NamedTuple):
    """The cells of the sources and the references on one line, or the fault that makes it useless."""

    line: int
    cells: Cells = ()
    targets: tuple[str, ...] = ()
    fault: str = ""


class TableRow(NamedTuple):
    """All cells of one line of a table, or a fault."""

    line: int
    cells: list[str]
    fault: str = ""


def file_format(path: Path) -> Format:
    """JSONL or CSV if the suffix (before .gz) says so, else TSV."""
    suffix = _suffix(path)
    return "jsonl" if suffix == ".jsonl" else "csv" if suffix == ".csv" else "tsv"


def is_plain_text(path: Path) -> bool:
    """True if a file is no table by its name; to a language model its lines are texts, tabs included."""
    return _suffix(path) not in (".tsv", ".csv", ".jsonl")


def _suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def reads_lines(path: Path, data: DataConfig) -> bool:
    """True if each line of a file is a text, tabs included: plain text without two columns to read.

    A language model has none, and in a pretext task source and target are the same column.
    """
    same = data.text is not None and data.text.column == data.target.column == 0
    return is_plain_text(path) and (data.source is None or same)


def parse_lines(path: Path, lines: Iterator[Line], data: DataConfig, *, table: bool = False) -> Iterator[ParsedLine]:
    """The cells and references of each line of a file; without data.source each line is a text.

    With `table` a file has columns whatever its name is.
    """
    if not table and reads_lines(path, data):
        return _parse_plain(path, lines, data)
    if file_format(path) == "jsonl":
        return _parse_jsonl(path, lines, data)
    return _parse_table(path, read_table_rows(path, lines), data)


def read_table_rows(path: Path, lines: Iterator[Line]) -> Iterator[TableRow]:
    """The rows of a table, CSV or TSV; an unreadable row has a fault and no cells."""
    return _csv_rows(lines) if file_format(path) == "csv" else _tsv_rows(lines)


def typical_row(rows: Sequence[TableRow]) -> TableRow:
    """The first row with the most frequent number of cells; a stray tab in one row does not matter."""
    readable = [row for row in rows if not row.fault]
    [(width, _)] = Counter(len(row.cells) for row in readable).most_common(1)
    return next(row for row in readable if len(row.cells) == width)


def _parse_plain(path: Path, lines: Iterator[Line], data: DataConfig) -> Iterator[ParsedLine]:
    """Plain text: a text on each line. In a stream an empty line counts, too."""
    column = _columns(data)[-1]
    if column.name != 0:
        raise DataError(
            f"{path}: plain text has no columns, but {column.key} is {column.name!r}; set it to 0, or, if this is a "
            "table, rename the file to .tsv or .csv"
        )
    for line in lines:
        if data.header and line.number == 1:
            continue
        if data.window is None and not line.text.strip():
            yield ParsedLine(line.number, fault="empty line")
        else:
            yield ParsedLine(line.number, (line.text,) if data.source else (), (line.text,))


def _parse_table(path: Path, rows: Iterator[TableRow], data: DataConfig) -> Iterator[ParsedLine]:
    """A table: the header gives the number of columns; without one, most of the first lines do."""
    columns = _columns(data)
    for first in rows:
        if not first.fault:
            break
        yield ParsedLine(first.line, fault=first.fault)
    else:
        return
    named = any(isinstance(column.name, str) for column in columns)
    header = named if data.header is None else data.header
    if named and not header:
        raise DataError(f"{path}: columns are given by name but data.header is false; set it to true, or give numbers")
    head = [] if header else [first, *itertools.islice(rows, HEAD - 1)]
    model = typical_row(head or [first])
    numbers = [_number(path, column, model.cells) for column in columns]
    for row in itertools.chain(head, rows):
        yield _parse_row(row, len(model.cells), numbers, sources=len(data.sources))


def _parse_jsonl(path: Path, lines: Iterator[Line], data: DataConfig) -> Iterator[ParsedLine]:
    """JSONL: an object on each line; columns are keys, and a list of strings is several references."""
    columns = [Column(column.key, str(column.name)) for column in _columns(data)]
    names = [str(column.name) for column in columns]
    sources, targets = names[: len(data.sources)], names[len(data.sources) :]
    missing = set(names)
    seen: dict[str, None] = {}
    for line in lines:
        value = _json_object(line.text)
        if isinstance(value, str):
            yield ParsedLine(line.number, fault=value)
            continue
        missing -= value.keys()
        if len(seen) < KEYS:
            seen.update(dict.fromkeys(value))
        yield _parse_object(line.number, value, sources, targets)
    if missing and seen:
        raise DataError([_no_such(path, "key", column, list(seen)) for column in columns if column.name in missing])


def _columns(data: DataConfig) -> list[Column]:
    """The columns of the sources, if there are any, then those of the references."""
    if problems := data_problems(data):
        raise DataError(problems)
    sides = [(f"{data.place(number)}.column", source.column) for number, source in enumerate(data.sources)]
    sides.append(("data.target.column", data.target.column))
    return [Column(key, name) for key, value in sides for name in (value if isinstance(value, list) else [value])]


def _tsv_rows(lines: Iterator[Line]) -> Iterator[TableRow]:
    for line in lines:
        if line.text.strip():
            yield TableRow(line.number, line.text.split("\t"))
        else:
            yield TableRow(line.number, [], "empty line")


def _csv_rows(lines: Iterator[Line]) -> Iterator[TableRow]:
    """Comma-separated; a quoted field may hold commas, doubled quotes and line ends."""
    ahead: deque[Line] = deque()
    while True:
        line = ahead.popleft() if ahead else next(lines, None)
        if line is None:
            return
        if not line.text.strip():
            yield TableRow(line.number, [], "empty line")
        elif '"' not in line.text:
            yield TableRow(line.number, line.text.split(","))
        else:
            yield _quoted_row(line, lines, ahead)


def _quoted_row(first: Line, lines: Iterator[Line], ahead: deque[Line]) -> TableRow:
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
        return TableRow(first.number, next(csv.reader(feed(), strict=True)))
    except csv.Error as error:
        ahead.extendleft(reversed(taken))
        fault = next((ours for theirs, ours in CSV_FAULTS.items() if theirs in str(error)), f"not CSV: {error}")
        return TableRow(first.number, [], fault)


def _number(path: Path, column: Column, cells: list[str]) -> int:
    """The position of a column, given by number or by name."""
    if isinstance(column.name, int):
        if column.name < len(cells):
            return column.name
        known = ", ".join(f"{number} ({_quoted(cell, 20)})" for number, cell in enumerate(cells[:20]))
        mark = "commas" if file_format(path) == "csv" else "tabs"
        remedy = f"set {column.key} to one of them, or put {mark} between the columns"
        raise DataError(f"{path}: no column {column.name}; its lines have {known}; {remedy}")
    names = [cell.strip() for cell in cells]
    if column.name in names:
        return names.index(column.name)
    raise DataError(_no_such(path, "column", column, names))


def _no_such(path: Path, what: str, column: Column, names: list[str]) -> str:
    """The error for a name that does not exist."""
    name = str(column.name)
    close = nearest(name, names)
    guess = f"did you mean {_quoted(close)}? " if close else ""
    known = ", ".join(_quoted(name) for name in names[:20])
    return f"{path}: no {what} {_quoted(name)}; {guess}it has {known}; set {column.key} to one of them"


def _quoted(text: str, most: int = 40) -> str:
    return f"'{visible(text[:most], keep=' ')}'"


def _parse_row(row: TableRow, width: int, numbers: list[int], *, sources: int) -> ParsedLine:
    if row.fault:
        return ParsedLine(row.line, fault=row.fault)
    cells = row.cells
    if len(cells) != width:
        return ParsedLine(row.line, fault="too many columns" if len(cells) > width else "too few columns")
    texts = tuple(cells[number] for number in numbers)
    return _parsed(row.line, texts[:sources], texts[sources:])


def _parsed(line: int, cells: Cells, targets: tuple[str, ...]) -> ParsedLine:
    """A line of `generate` has tabs between several sources, so none of them may contain one."""
    if len(cells) > 1 and any("\t" in cell for cell in cells):
        return ParsedLine(line, fault="a tab inside a source")
    return ParsedLine(line, cells, targets)


def _json_object(text: str) -> dict[str, Any] | str:
    """The object on a line, or its fault."""
    if not text.strip():
        return "empty line"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "not JSON"
    return value if isinstance(value, dict) else "not a JSON object"


def _parse_object(line: int, value: dict[str, Any], sources: list[str], targets: list[str]) -> ParsedLine:
    for key in [*sources, *targets]:
        if key not in value:
            return ParsedLine(line, fault=f"no key {_quoted(key)}")
    read = tuple(value[key] for key in sources)
    references: list[Any] = []
    for key in targets:
        references.extend(value[key] if isinstance(value[key], list) else [value[key]])
    for text in (*read, *references):
        if not isinstance(text, str):
            return ParsedLine(line, fault="a value is not a string")
        if not _is_unicode(text):
            return ParsedLine(line, fault="half of a surrogate pair")
    return _parsed(line, read, tuple(references))


def _is_unicode(text: str) -> bool:
    """JSON can spell half a character (\\ud800), which no file can hold."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
