"""Source and target among the columns of an unknown file."""

from __future__ import annotations

import itertools
import shlex
from dataclasses import dataclass
from pathlib import Path

from antiphon.config.schema import DataConfig
from antiphon.data.delimited import NUMBER, plural_name
from antiphon.data.lines import read_lines
from antiphon.data.tables import TableSample, has_lines, is_keyed, is_plain_text, reads_lines, sample_table, typical_row
from antiphon.errors import DataError

__all__ = ["TARGET_NAMES", "Columns", "find_columns", "is_table", "is_text"]

SAMPLE_LINES = 200
MIN_CSV_LINES = 20  # fewer lines of prose may all have the same number of commas by chance
SOURCE_NAMES = (
    "source", "src", "input", "x", "word", "grapheme", "graphemes", "spelling", "question", "prompt", "text",
    "sentence", "en",
)  # fmt: skip
TARGET_NAMES = (
    "target", "tgt", "output", "y", "pronunciation", "phonemes", "phones", "ipa", "answer", "completion", "response",
    "translation", "label", "summary", "query", "trg", "de", "fr", "es",
)  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """The columns of source and target, and the reason for the choice."""

    source: int | str
    target: int | str
    reason: str


def is_text(path: Path) -> bool:
    """True if a file is plain text by its name, and its first lines do not look like columns."""
    if not is_plain_text(path):
        return False
    head = [line.text for line in itertools.islice(read_lines(path), SAMPLE_LINES) if line.text.strip()]
    tabs = sum("\t" in line for line in head)
    delimited = len(head) >= MIN_CSV_LINES and sample_table(path).delimiter != "\t"
    table = 2 * tabs > len(head) or all("|||" in line for line in head) or delimited
    return bool(head) and not table


def is_table(path: Path, data: DataConfig) -> bool:
    """True if a file has columns: by its name, or by its tabs if the model would read it as pairs."""
    if not is_plain_text(path):
        return True
    if reads_lines(path, data):
        return False
    sample = sample_table(path, data, SAMPLE_LINES)
    rows = [row for row in sample.rows if not row.fault]
    # Only tabs are sure not to be characters of a line.
    sure = sample.delimiter == "\t" or data.delimiter is not None
    return bool(rows) and sure and len(typical_row(rows).cells) > 1


def find_columns(path: Path, name: str) -> Columns:
    """The columns of source and target; DataError if the file has fewer than two columns."""
    sample = sample_table(path, count=SAMPLE_LINES)
    if is_keyed(path):
        return json_columns(sample, name)
    rows = [row for row in sample.rows if any(cell.strip() for cell in row.cells)]
    faulty = next((row for row in sample.rows if row.fault and row.fault != "empty line"), None)
    if not rows and faulty:
        raise DataError(
            f"{name}, line {faulty.line}: {faulty.fault}, and the other lines are no better; correct the file"
        )
    width = len(typical_row(rows).cells) if rows else 0
    if width < 2:
        head = [line.text for line in itertools.islice(read_lines(path), SAMPLE_LINES)] if has_lines(path) else []
        raise DataError(single_column_message(head, name, plural_name(sample.delimiter)))
    first, *below = [[cell.strip() for cell in row.cells] for row in rows]
    if is_header(first, below):
        source, target = source_and_target(first)
        others = [cell for cell in first if cell not in (source, target)]
        reason = f"the first line names the columns: {source} is the source, {target} the target"
        return Columns(source, target, reason + describe_unused(others))
    more = f"; the other {width - 2} are not used" if width > 2 else ""
    return Columns(0, 1, f"no header in the first line: column 0 is the source, column 1 the target{more}")


def json_columns(sample: TableSample, name: str) -> Columns:
    """Source and target among the keys whose values are text or lists of text."""
    columns = {key: [row.cells[number] for row in sample.rows if row.cells] for number, key in enumerate(sample.names)}
    numbers = [key for key, cells in columns.items() if all(NUMBER.fullmatch(cell) for cell in cells if cell)]
    keys = [key for key, cells in columns.items() if any(map(str.strip, cells)) and key not in numbers]
    keys += [key for key in numbers if any(columns[key])]  # perhaps labels
    if len(keys) < 2:
        present = f"only {', '.join(keys)}" if keys else "none"
        raise DataError(
            f'{name}: two keys with text are needed, found {present}; write {{"source": ..., "target": ...}}'
        )
    source, target = source_and_target(keys)
    others = [key for key in keys if key not in (source, target)]
    kind = sample.format.upper()
    return Columns(
        source, target, f"{kind}: the key {source} is the source, {target} the target" + describe_unused(others)
    )


def is_header(cells: list[str], below: list[list[str]]) -> bool:
    """True if a first line names columns and is not the first example.

    It has to contain a known name of a source and one of a target (or nothing but known names), and no name may look
    like a value of its own column: a file of English and German words may begin with `answer` and `Antwort`.
    """
    names = [cell.lower() for cell in cells]
    if len(names) < 2 or len(set(names)) < len(names):
        return False
    sources, targets = set(names) & set(SOURCE_NAMES), set(names) & set(TARGET_NAMES)
    known = (sources and targets) or len(sources | targets) == len(names)
    columns = [[row[number] for row in below if number < len(row)] for number in range(len(names))]
    return bool(known) and not any(looks_like_value(name, column) for name, column in zip(names, columns, strict=True))


def looks_like_value(name: str, column: list[str]) -> bool:
    """True if a name may be a value of its column: it is one, or both have at most two letters (x, en)."""
    if name in {cell.lower() for cell in column}:
        return True
    short = sum(len(cell) <= 2 and cell.isalpha() for cell in column)
    return len(name) <= 2 and 2 * short > len(column)


def source_and_target(names: list[str]) -> tuple[str, str]:
    """Source and target among names: known names first, else the first two."""

    def best(known: tuple[str, ...], besides: str | None) -> str | None:
        ranked = [name for word in known for name in names if name.lower() == word and name != besides]
        return ranked[0] if ranked else None

    source = best(SOURCE_NAMES, None)
    target = best(TARGET_NAMES, source)
    rest = [name for name in names if name not in (source, target)]
    source = source or rest.pop(0)
    return source, target or rest.pop(0)


def describe_unused(others: list[str]) -> str:
    """The columns that are not used, in brackets."""
    return f" (not used: {', '.join(others)})" if others else ""


def single_column_message(head: list[str], name: str, separator: str) -> str:
    """The error for a file whose lines have only one column."""
    lines = [line for line in head if line.strip()]
    plain = f"; or, if it is plain text for a language model: antiphon train lm-lstm data.train={shlex.quote(name)}"
    for mark, advice in (
        (",", f"rename it to .csv{plain}"),
        ("\t", "rename it to .tsv"),
        ("|||", "replace ' ||| ' by tabs"),
    ):
        if lines and all(mark in line for line in lines):
            return f"{name}: no {separator} in its first lines, but {mark!r} in every line; {advice}"
    return (
        f"{name}: one column only, no {separator} in its first lines; separate source and target by a tab, "
        "or give two files, one for each side"
    )
