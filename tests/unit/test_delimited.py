"""The first lines tell the delimiter and the quotes of a text."""

from __future__ import annotations

import pytest

from antiphon.data.delimited import Dialect, find_dialect, row_head, split_rows
from antiphon.data.lines import Line

PLAIN, QUOTED = Dialect("\t", False), Dialect("\t", True)


def numbered(text: str) -> list[Line]:
    return [Line(number, line) for number, line in enumerate(text.split("\n"), start=1)]


def cells_of(text: str, dialect: Dialect) -> list[tuple[int, list[str]]]:
    return [(row.line, row.cells) for row in split_rows(iter(numbered(text)), dialect)]


@pytest.mark.parametrize(
    ("kind", "text", "delimiter"),
    [
        ("csv", "a,b\nc,d", ","),
        ("csv", "a;b\nc;d", ";"),
        ("csv", "a\tb\nc\td", "\t"),
        ("csv", "a|b\nc|d", "|"),
        ("csv", "one column\nof text", ","),
        ("csv", "x;y\n1,5;2\n2,5;3", ";"),  # decimal commas below a header
        ("csv", "x;y\n" + "2,5;3\n" * 30, ";"),  # also below many
        ("csv", "Ja, gut;Yes, good\nNein, nie;No, never", ";"),  # a comma with a space is punctuation
        ("csv", "a, b\nc, d", ","),  # unless nothing else fits
        ("csv", "a;b,c;d\ne;f,g;h", ","),  # both fit: the usual one
        ("csv", 'a;"b;c"\nd;e\nf;"g, h"', ";"),
        ("csv", '"a;b",c\n"d;e;f",g', ","),
        ("csv", "a,b\n" * 8 + "a,b;c\n" * 2, ","),
        ("txt", "a\tb\nc\td", "\t"),
        ("txt", "a;b\nc;d", ";"),
        ("txt", "a|b\nc|d", "|"),
        ("txt", "hund,dog\nkatze,cat", ","),
        ("txt", "Hear me, all.\nSpeak, speak.", "\t"),
        ("txt", "Hear me; all.\nSpeak; speak.", "\t"),
        ("txt", "stray,comma\nand none\nhere", "\t"),
        ("txt", "one ||| eins\ntwo ||| zwei", "\t"),
        ("txt", "a\tb|c\nd\te|f", "\t"),
        ("txt", "a\tb;c\nd;e", ";"),  # a stray tab
        ("tsv", "a;b\nc;d", "\t"),  # the suffix says it
    ],
)
def test_the_delimiter_is_the_one_that_makes_columns(kind: str, text: str, delimiter: str) -> None:
    kind = "text" if kind == "txt" else kind
    assert find_dialect(numbered(text), kind).delimiter == delimiter
    assert find_dialect(numbered(text), kind, "^").delimiter == "^"  # the configuration has the last word


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ('a\t"b ""c"" d"\ne\tf', QUOTED),
        ('"a\tb"\tc\nd\te\nf\tg', QUOTED),  # a tab in quotes
        ('"a\nb"\tc\nd\te', QUOTED),  # a line end in quotes
        ('"a"\t"b"\n"c"\t"d"', QUOTED),
        ('"a"\t1\n"c"\t2.5', QUOTED),
        ('a\tb\n"c, d"\te\n"f, g"\th\n"i, j"\tk', QUOTED),  # Excel: what has a comma is in quotes
        ('a\t"b ""c"" d"\ne\t"cut by the end of the', QUOTED),
        ('b "x\t a \nc\td', PLAIN),
        ('"Hi"\tsagte er\nno\tnein', PLAIN),
        ('"Hi, you"\tHe\n"No, no"\tShe\n"Well, well"\tThey, too', PLAIN),
        ('"Hi", he said\tx\n"c, d"\te\n"f, g"\th\n"i, j"\tk', PLAIN),
        ('"Hi,\t"Hallo,\nyou"\tdu"', PLAIN),  # quotations over two lines
        ('"Hi,\tHallo,\nyou"\tdu', PLAIN),
        ('"x \t""a y"\nb\tc', PLAIN),  # read with quotes it would have one cell
        ('5" disk\ta ""quote""', PLAIN),
        ('"a"\t"b"', PLAIN),  # one row is not enough
        ("a\tb", PLAIN),
        ("", PLAIN),
    ],
)
def test_quotes_of_tsv_are_marks_only_if_something_shows_it(text: str, dialect: Dialect) -> None:
    assert find_dialect(numbered(text), "tsv") == dialect


def test_a_quoted_tsv_keeps_tabs_quotes_and_line_ends_in_its_cells() -> None:
    text = 'en\tde\n"a ""b"""\tc\n"tab\there"\t"two\nlines"\nlast\t5'
    assert cells_of(text, find_dialect(numbered(text), "tsv")) == [
        (1, ["en", "de"]),
        (2, ['a "b"', "c"]),
        (3, ["tab\there", "two\nlines"]),
        (5, ["last", "5"]),
    ]


@pytest.mark.parametrize("delimiter", [";", "|", "^"])
def test_quotes_of_other_delimiters_are_those_of_csv(delimiter: str) -> None:
    text = f'"a{delimiter}b"{delimiter}c\n5" disk{delimiter}d'
    assert cells_of(text, Dialect(delimiter, True)) == [(1, [f"a{delimiter}b", "c"]), (2, ['5" disk', "d"])]


@pytest.mark.parametrize(("line", "taken"), [("a,b", 1000), ("x" * 300_000, 4)])
def test_only_the_first_lines_are_looked_at(line: str, taken: int) -> None:
    lines = iter([Line(number, line) for number in range(1, 2000)])
    assert len(row_head(lines)) == taken
    assert next(lines).number == taken + 1
