"""Files as tables: rows of cells (TSV, CSV, xlsx, CoNLL) or records with keys (JSON, JSONL, parquet); and plain text.

`open_table` is the one door: whoever inspects a file gets the rows that training gets.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.config.checks import data_problems
from antiphon.config.schema import DataConfig
from antiphon.config.sections import Format, file_format
from antiphon.data.binary_tables import parquet_records, sheet_rows
from antiphon.data.conll import sentence_rows
from antiphon.data.delimited import TableRow, find_dialect, plural_name, row_head, split_rows
from antiphon.data.lines import Line, read_lines
from antiphon.data.records import MISSING, Record, array_records, flat_keys, is_unicode, json_records, text_of, value_at
from antiphon.data.source import Cells
from antiphon.errors import DataError
from antiphon.text import nearest, visible

__all__ = [
    "DataTable", "ParsedLine", "TableSample", "has_columns", "has_lines", "is_keyed", "is_plain_text",
    "open_table", "parse_lines", "reads_lines", "sample_table", "typical_row",
]  # fmt: skip

HEAD = 100  # lines that tell the number of columns of a table without a header
KEYS = 20  # that are listed when the right one is missing


@dataclass(frozen=True)
class DataTable:
    """A file as a table: `rows` of cells or, if it `is_keyed`, `records`; the other of them is empty."""

    format: Format
    delimiter: str  # between the cells of TSV, CSV and text; else ""
    rows: Iterator[TableRow]
    records: Iterator[Record]


class TableSample(NamedTuple):
    """The first rows of a table. Of records, `names` are the keys (`a.b` inside a) and each row has a cell for each.

    The `lists` are keys with lists of texts: several references, so they can only be a target.
    """

    format: Format
    delimiter: str
    names: tuple[str, ...]
    rows: list[TableRow]
    lists: frozenset[str]


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


def is_plain_text(path: Path) -> bool:
    """True if a file is no table by its name; to a language model its lines are texts, tabs included."""
    return file_format(path) == "text"


def is_keyed(path: Path) -> bool:
    """True if a file holds records, whose columns are keys."""
    return file_format(path) in ("jsonl", "json", "parquet")


def has_lines(path: Path) -> bool:
    """True if the lines of a file are its rows (but for line ends in quotes), so that its size tells their number."""
    return file_format(path) not in ("json", "parquet", "xlsx", "conll")


def reads_lines(path: Path, data: DataConfig) -> bool:
    """True if each line of a file is a text, tabs included: plain text without two columns to read.

    A language model has none, and in a pretext task source and target are the same column.
    """
    same = data.text is not None and data.text.column == data.target.column == 0
    return is_plain_text(path) and data.delimiter is None and (data.source is None or same)


def has_columns(path: Path, data: DataConfig) -> bool:
    """True if a file of inputs has columns, of which the sources are some.

    The lines of a .tsv may hold the sources alone, with tabs between them, as the lines of a text do.
    """
    if file_format(path) != "tsv":
        return not is_plain_text(path)
    rows = [row for row in sample_table(path, data, HEAD).rows if not row.fault]
    if not rows:
        return False
    names = {column.name for column in _columns(data)[: len(data.sources) or 1]}
    return len(typical_row(rows).cells) > max(1, len(data.sources)) or names <= {cell.strip() for cell in rows[0].cells}


def open_table(
    path: Path, data: DataConfig | None = None, lines: Iterator[Line] | None = None, names: Sequence[str] = ()
) -> DataTable:
    """The table in a file. `lines` are those of the file, if the caller has opened it; `names` the keys it needs."""
    kind = file_format(path)
    if kind == "xlsx":
        return DataTable(kind, "", sheet_rows(path), iter(()))
    if kind == "parquet":
        return DataTable(kind, "", iter(()), parquet_records(path, names))
    lines = read_lines(path) if lines is None else lines
    if kind == "jsonl":
        return DataTable(kind, "", iter(()), json_records(lines))
    if kind == "json":
        return DataTable(kind, "", iter(()), array_records(path, lines))
    if kind == "conll":
        return DataTable(kind, "", sentence_rows(lines, None if data is None else data.delimiter), iter(()))
    head = row_head(lines)
    dialect = find_dialect(head, kind, None if data is None else data.delimiter)
    return DataTable(kind, dialect.delimiter, split_rows(itertools.chain(head, lines), dialect), iter(()))


def sample_table(path: Path, data: DataConfig | None = None, count: int = 200) -> TableSample:
    """The first rows of a table."""
    table = open_table(path, data)
    if not is_keyed(path):
        rows = list(itertools.islice(table.rows, count))
        return TableSample(table.format, table.delimiter, (), rows, frozenset())
    records = list(itertools.islice(table.records, count))
    flat = [dict(flat_keys(record.values)) for record in records]
    names = tuple(dict.fromkeys(name for values in flat for name in values))
    lists = frozenset(name for values in flat for name, value in values.items() if isinstance(value, list))
    rows = [
        TableRow(record.line, [] if record.fault else [_sample_text(values.get(name)) for name in names], record.fault)
        for record, values in zip(records, flat, strict=True)
    ]
    return TableSample(table.format, "", names, rows, lists)


def _sample_text(value: Any) -> str:  # noqa: ANN401 (any JSON)
    """The text of a value or of the first item of a list; nothing if there is none."""
    return text_of(next(iter(value), None) if isinstance(value, list) else value) or ""


def typical_row(rows: Sequence[TableRow]) -> TableRow:
    """The first row with the most frequent number of cells; a stray tab in one row does not matter."""
    readable = [row for row in rows if not row.fault]
    [(width, _)] = Counter(len(row.cells) for row in readable).most_common(1)
    return next(row for row in readable if len(row.cells) == width)


def parse_lines(
    path: Path, data: DataConfig, lines: Iterator[Line] | None = None, *, table: bool = False
) -> Iterator[ParsedLine]:
    """The cells and references of each line of a file; without data.source each line is a text.

    `lines` are those of the file, if the caller has opened it. With `table` a file has columns whatever its name is.
    """
    if not table and reads_lines(path, data):
        return _parse_plain(path, read_lines(path) if lines is None else lines, data)
    names = [str(column.name) for column in _columns(data)]
    opened = open_table(path, data, lines, names)
    return _parse_records(path, opened.records, data) if is_keyed(path) else _parse_table(path, opened, data)


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


def _parse_table(path: Path, table: DataTable, data: DataConfig) -> Iterator[ParsedLine]:
    """A table: the header gives the number of columns; without one, most of the first lines do."""
    columns, rows = _columns(data), table.rows
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
    numbers = [_number(path, column, model.cells, table.delimiter) for column in columns]
    for row in itertools.chain(head, rows):
        yield _parse_row(row, len(model.cells), numbers, sources=len(data.sources))


def _parse_records(path: Path, records: Iterator[Record], data: DataConfig) -> Iterator[ParsedLine]:
    """Records: columns are keys, and a list of texts is several references."""
    columns = [Column(column.key, str(column.name)) for column in _columns(data)]
    names = [str(column.name) for column in columns]
    sources, targets = names[: len(data.sources)], names[len(data.sources) :]
    missing = set(names)
    seen: dict[str, None] = {}
    for line, values, fault in records:
        if fault:
            yield ParsedLine(line, fault=fault)
            continue
        if missing:
            missing = {name for name in missing if _is_missing(value_at(values, name))}
            if len(seen) < KEYS:
                seen.update(dict.fromkeys(name for name, _ in flat_keys(values)))
        yield _parse_record(line, values, sources, targets)
    if missing and seen:
        raise DataError([_no_such(path, "key", column, list(seen)) for column in columns if column.name in missing])


def _is_missing(value: Any) -> bool:  # noqa: ANN401 (any JSON)
    return value is MISSING or isinstance(value, dict)


def _columns(data: DataConfig) -> list[Column]:
    """The columns of the sources, if there are any, then those of the references."""
    if problems := data_problems(data):
        raise DataError(problems)
    sides = [(f"{data.place(number)}.column", source.column) for number, source in enumerate(data.sources)]
    sides.append(("data.target.column", data.target.column))
    return [Column(key, name) for key, value in sides for name in (value if isinstance(value, list) else [value])]


def _number(path: Path, column: Column, cells: list[str], delimiter: str) -> int:
    """The position of a column, given by number or by name."""
    if isinstance(column.name, int):
        if column.name < len(cells):
            return column.name
        known = ", ".join(f"{number} ({_quoted(cell, 20)})" for number, cell in enumerate(cells[:20]))
        between = f"put {plural_name(delimiter)} between the columns" if delimiter else "add the column"
        remedy = f"set {column.key} to one of them, or {between}"
        raise DataError(f"{path}: no column {column.name}; its lines have {known}; {remedy}")
    names = [cell.strip() for cell in cells]
    if column.name in names:
        return names.index(column.name)
    raise DataError(_no_such(path, "column", column, names))


def _no_such(path: Path, what: str, column: Column, names: list[str]) -> str:
    """The error for a name that does not exist."""
    name = str(column.name)
    inside = [known for known in names if known.startswith(f"{name}.")]
    if inside:
        return f"{path}: {_quoted(name)} is an object; set {column.key} to a key in it, such as {_quoted(inside[0])}"
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


def _parse_record(line: int, values: dict[str, Any], sources: list[str], targets: list[str]) -> ParsedLine:
    cells: list[str] = []
    references: list[str] = []
    for number, name in enumerate((*sources, *targets)):
        value = value_at(values, name)
        if value is MISSING:
            return ParsedLine(line, fault=f"no key {_quoted(name)}")
        is_target = number >= len(sources)
        for item in value if is_target and isinstance(value, list) else [value]:
            text = text_of(item)
            if text is None:
                kind = "an object" if isinstance(item, dict) else "a list" if isinstance(item, list) else "not text"
                return ParsedLine(line, fault=f"a value of {_quoted(name)} is {kind}")
            if not is_unicode(text):
                return ParsedLine(line, fault="half of a surrogate pair")
            (references if is_target else cells).append(text)
    return _parsed(line, tuple(cells), tuple(references))
