"""Delimited text as rows: cells between tabs, commas, semicolons or pipes, with quotes or without.

The first lines tell the delimiter and the quotes; the same lines always tell the same.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from antiphon.config.sections import DELIMITERS
from antiphon.data.lines import Line

__all__ = ["NUMBER", "TableRow", "find_dialect", "plural_name", "row_head", "split_rows"]

# Candidates, the usual one first.
CSV_DELIMITERS = (",", ";", "\t", "|")
TEXT_DELIMITERS = ("\t", ";", "|", ",")
HEAD_LINES, HEAD_CHARACTERS = 1000, 1_000_000  # that tell the delimiter and the quotes
SAME_WIDTH = 0.9  # share of the rows that have the same number of cells if the delimiter is right
QUOTED_COMMAS = 3  # cells that are in quotes because of a comma: fewer may be quotations
QUOTED_LINES = 100  # of a quoted cell; in a longer one the quote was meant as a plain character
# Messages of the csv module, and ours.
CSV_FAULTS = {
    "unexpected end of data": "a quote is not closed",
    "field larger than field limit": f"a quoted field of more than {csv.field_size_limit():,} characters",
    "new-line character seen": "a carriage return in a line with quotes",
}
QUOTED = re.compile(r'"[^"]*+(?:""[^"]*+)*+"')
QUOTED_TSV_CELL = re.compile(rf'({QUOTED.pattern})(?=[\t\n])|[^"\t\n]*+(?=[\t\n])')
NUMBER = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?")


class TableRow(NamedTuple):
    """All cells of one line of a table, or a fault."""

    line: int
    cells: list[str]
    fault: str = ""


class Dialect(NamedTuple):
    """The delimiter of a text, and whether quotes around a cell are marks (else they are characters of the cell)."""

    delimiter: str
    quoted: bool


def row_head(lines: Iterator[Line]) -> list[Line]:
    """The first lines, taken from the iterator: as many as `find_dialect` looks at."""
    head, characters = list[Line](), 0
    for line in itertools.islice(lines, HEAD_LINES):
        head.append(line)
        characters += len(line.text)
        if characters > HEAD_CHARACTERS:
            break
    return head


def find_dialect(head: Sequence[Line], kind: str, delimiter: str | None = None) -> Dialect:
    """The dialect of the first lines of a `tsv`, a `csv` or a `text`; a given delimiter stays."""
    if delimiter is None:
        delimiter = "\t" if kind == "tsv" else _find_delimiter(head, kind)
    return _dialect(head, delimiter)


def _dialect(head: Sequence[Line], delimiter: str) -> Dialect:
    return Dialect(delimiter, delimiter != "\t" or _is_quoted_tsv(head))


def plural_name(delimiter: str) -> str:
    """A delimiter in words: tabs, commas."""
    return next((f"{name}s" for name, mark in DELIMITERS.items() if mark == delimiter), repr(delimiter))


def split_rows(lines: Iterator[Line], dialect: Dialect) -> Iterator[TableRow]:
    """The rows of a text; an unreadable row has a fault and no cells."""
    return _quoted_rows(lines, dialect.delimiter) if dialect.quoted else _plain_rows(lines, dialect.delimiter)


# The delimiter. csv.Sniffer splits prose at its commas, and prefers the commas in cells to the semicolons between them.


def _find_delimiter(head: Sequence[Line], kind: str) -> str:
    """The candidate that gives the most rows the same number of cells, at least two; else the usual one.

    Commas and semicolons with spaces behind them are rather punctuation: they give way to others, and in a plain text
    they are no delimiter at all.
    """
    candidates = CSV_DELIMITERS if kind == "csv" else TEXT_DELIMITERS
    text = "\n".join(line.text for line in head)
    shares = {one: _share_of_rows(head, one) for one in candidates if one in text}
    fitting = sorted((one for one in shares if shares[one] >= SAME_WIDTH), key=lambda one: -shares[one])
    sure = [one for one in fitting if not _is_punctuation(text, one)]
    return next(iter([*sure, *(fitting if kind == "csv" else ())]), candidates[0])


def _share_of_rows(head: Sequence[Line], delimiter: str) -> float:
    """The share of the rows that have the usual number of cells; 0 if that is one."""
    rows = [row for row in split_rows(iter(head), _dialect(head, delimiter)) if row.fault != "empty line"]
    width, share = _common_width([len(row.cells) for row in rows])
    return share if width > 1 else 0.0


def _common_width(widths: Sequence[int]) -> tuple[int, float]:
    """The most frequent number of cells, and the share of the rows that have it."""
    [(width, count)] = Counter(widths).most_common(1) or [(0, 0)]
    return width, count / max(1, len(widths))


def _is_punctuation(text: str, delimiter: str) -> bool:
    if delimiter == "|":
        return "|||" in text  # between the sides of aligned sentences
    return delimiter in ",;" and not re.search(rf"{delimiter}[^ \n]", text)


# The quotes of TSV.


def _is_quoted_tsv(head: Sequence[Line]) -> bool:
    """True if the first lines follow the rules of quotes, and something shows that quotes are such marks.

    It is shown by doubled quotes; by tabs or line ends in quotes without which the rows have more regular widths; by
    quotes around all cells but numbers; or by quotes around all cells with commas and no others (Excel).
    """
    text = "".join(f"{line.text}\n" for line in head)
    rows = _tsv_cells(text) if '"' in text else []
    cells = [cell for row in rows for cell in row]
    quoted = [cell for cell in cells if cell.startswith('"')]
    _, plain_share = _common_width([line.text.count("\t") for line in head if line.text.strip()])
    width, share = _common_width([len(row) for row in rows if row != [""]])
    if not quoted or share < plain_share:
        return False
    commas = [cell for cell in cells if "," in cell]
    all_quoted = all(not cell or cell[0] == '"' or NUMBER.fullmatch(cell) for cell in cells)
    return (
        any('""' in cell[1:-1] for cell in quoted)
        or (width > 1 and SAME_WIDTH <= share > plain_share)
        or (width > 1 and len(rows) > 1 and all_quoted)
        or (commas == quoted and len(commas) >= QUOTED_COMMAS)
    )


def _tsv_cells(text: str) -> list[list[str]]:
    """The cells of each row, with their quotes; no row at all if a quote is not where the rules have it."""
    rows, row, place = list[list[str]](), list[str](), 0
    while place < len(text):
        cell = QUOTED_TSV_CELL.match(text, place)
        if cell is None:
            cut = text[place] == '"' and not QUOTED.match(text, place)  # by the end of the first lines
            return rows if cut else []
        row.append(cell[0])
        place = cell.end() + 1
        if text[cell.end()] == "\n":
            rows.append(row)
            row = []
    return rows


# The rows.


def _plain_rows(lines: Iterator[Line], delimiter: str) -> Iterator[TableRow]:
    for line in lines:
        if line.text.strip():
            yield TableRow(line.number, line.text.split(delimiter))
        else:
            yield TableRow(line.number, [], "empty line")


def _quoted_rows(lines: Iterator[Line], delimiter: str) -> Iterator[TableRow]:
    """A quoted cell may hold delimiters, doubled quotes and line ends."""
    ahead: deque[Line] = deque()
    while True:
        line = ahead.popleft() if ahead else next(lines, None)
        if line is None:
            return
        if not line.text.strip():
            yield TableRow(line.number, [], "empty line")
        elif '"' not in line.text:
            yield TableRow(line.number, line.text.split(delimiter))
        else:
            yield _quoted_row(line, lines, ahead, delimiter)


def _quoted_row(first: Line, lines: Iterator[Line], ahead: deque[Line], delimiter: str) -> TableRow:
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
        return TableRow(first.number, next(csv.reader(feed(), delimiter=delimiter, strict=True)))
    except csv.Error as error:
        ahead.extendleft(reversed(taken))
        fault = next((ours for theirs, ours in CSV_FAULTS.items() if theirs in str(error)), f"not CSV: {error}")
        return TableRow(first.number, [], fault)
