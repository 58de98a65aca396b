"""Source and target among the columns of an unknown file."""

from __future__ import annotations

import itertools
import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from antiphon.config.schema import DataConfig
from antiphon.data.lines import read_lines
from antiphon.data.tables import file_format, is_plain_text, read_table_rows, reads_lines, typical_row
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
    commas = {line.count(",") for line in head}
    csv = len(head) >= MIN_CSV_LINES and len(commas) == 1 and commas != {0}
    table = 2 * tabs > len(head) or all("|||" in line for line in head) or csv
    return bool(head) and not table


def is_table(path: Path, data: DataConfig) -> bool:
    """True if a file has columns: by its name, or by its tabs if the model would read it as pairs."""
    if not is_plain_text(path):
        return True
    if reads_lines(path, data):
        return False
    rows = [row for row in read_table_rows(path, itertools.islice(read_lines(path), SAMPLE_LINES)) if not row.fault]
    return bool(rows) and len(typical_row(rows).cells) > 1


def find_columns(path: Path, name: str) -> Columns:
    """The columns of source and target; DataError if the file has fewer than two columns."""
    lines = list(itertools.islice(read_lines(path), SAMPLE_LINES))
    head = [line.text for line in lines]
    if file_format(path) == "jsonl":
        return json_columns(head, name)
    table = list(read_table_rows(path, iter(lines)))
    rows = [row for row in table if any(cell.strip() for cell in row.cells)]
    faulty = next((row for row in table if row.fault and head[row.line - 1].strip()), None)
    if not rows and faulty:
        raise DataError(
            f"{name}, line {faulty.line}: {faulty.fault}, and the other lines are no better; correct the file"
        )
    width = len(typical_row(rows).cells) if rows else 0
    if width < 2:
        raise DataError(single_column_message(head, name, "commas" if file_format(path) == "csv" else "tabs"))
    first, *below = [[cell.strip() for cell in row.cells] for row in rows]
    if is_header(first, below):
        source, target = source_and_target(first)
        others = [cell for cell in first if cell not in (source, target)]
        reason = f"the first line names the columns: {source} is the source, {target} the target"
        return Columns(source, target, reason + describe_unused(others))
    more = f"; the other {width - 2} are not used" if width > 2 else ""
    return Columns(0, 1, f"no header in the first line: column 0 is the source, column 1 the target{more}")


def json_columns(head: list[str], name: str) -> Columns:
    """Source and target among the keys whose values are text or lists of text."""
    keys: dict[str, None] = {}
    for line in head:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for key, text in value.items() if isinstance(value, dict) else ():
            if isinstance(text, str) or (
                isinstance(text, list) and text and all(isinstance(item, str) for item in text)
            ):
                keys[key] = None
    if len(keys) < 2:
        present = f"only {', '.join(keys)}" if keys else "none"
        raise DataError(
            f'{name}: two keys with text are needed, found {present}; write {{"source": ..., "target": ...}}'
        )
    source, target = source_and_target(list(keys))
    others = [key for key in keys if key not in (source, target)]
    return Columns(
        source, target, f"JSONL: the key {source} is the source, {target} the target" + describe_unused(others)
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
