"""CoNLL: a token and its labels on each line, and an empty line after each sentence.

Own code, because the packages for CoNLL-U read nothing else, and other files have any number of columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from antiphon.data.delimited import TableRow
from antiphon.data.lines import Line

__all__ = ["sentence_rows"]

NO_TOKEN = re.compile(r"\d+[-.]\d+")  # in column 0 of CoNLL-U: several tokens written as one, or an omitted one
DOCUMENT = "-DOCSTART-"
GLUE = "\N{NO-BREAK SPACE}"  # in place of a space inside a token


def sentence_rows(lines: Iterable[Line], delimiter: str | None = None) -> Iterator[TableRow]:
    """A row for each sentence: its tokens, and its labels of each further column, with spaces between them.

    Columns are separated by `delimiter`; None: by tabs or, in a line without any, by spaces.
    """
    for blank, group in groupby(lines, key=lambda line: not line.text.strip()):
        rows = [] if blank else [(line.number, _cells(line.text, delimiter)) for line in group]
        width = len(rows[-1][1]) if rows else 0
        rows = [(number, cells) for number, cells in rows if not _is_mark(cells, width)]
        if rows:
            yield _sentence(rows)


def _cells(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        delimiter = "\t" if "\t" in line else None
    return [cell.strip().replace(" ", GLUE) or "_" for cell in line.split(delimiter)]


def _is_mark(cells: list[str], width: int) -> bool:
    """True of a comment, the beginning of a document, or a line of CoNLL-U that is no token."""
    comment = cells[0].startswith("#") and len(cells) != width
    return comment or cells[0] == DOCUMENT or (width == 10 and NO_TOKEN.fullmatch(cells[0]) is not None)


def _sentence(rows: list[tuple[int, list[str]]]) -> TableRow:
    first, widths = rows[0][0], {len(cells) for _, cells in rows}
    if len(widths) > 1:
        return TableRow(first, [], "a sentence whose lines have unequal numbers of columns")
    return TableRow(first, [" ".join(column) for column in zip(*(cells for _, cells in rows), strict=True)])
