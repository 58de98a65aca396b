"""Which column of an unknown file is the source and which the target."""

from __future__ import annotations

import csv
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import DataError
from antiphon.sources.lines import read_lines

__all__ = ["Columns", "find_columns"]

HEAD = 200  # lines looked at
SOURCES = (
    "source",
    "src",
    "input",
    "x",
    "word",
    "grapheme",
    "graphemes",
    "spelling",
    "question",
    "prompt",
    "text",
    "sentence",
    "en",
)
TARGETS = (
    "target", "tgt", "output", "y", "pronunciation", "phonemes", "phones", "ipa", "answer", "completion", "response",
    "translation", "label", "summary", "query", "trg", "de", "fr", "es",
)  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """The two columns, and why these."""

    source: int | str
    target: int | str
    reason: str


def find_columns(path: Path, name: str) -> Columns:
    """Look at the first lines; a file in which nothing looks like two columns is a DataError."""
    suffix = Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()
    head = [line.text for line in itertools.islice(read_lines(path), HEAD)]
    if suffix == ".jsonl":
        return json_columns(head, name)
    rows = list(csv.reader(f"{line}\n" for line in head)) if suffix == ".csv" else [line.split("\t") for line in head]
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    first = [cell.strip() for cell in rows[0]] if rows else []
    if len(first) < 2:
        raise DataError(one_column(head, name, "commas" if suffix == ".csv" else "tabs"))
    if is_header(first):
        source, target = choose(first)
        others = [cell for cell in first if cell not in (source, target)]
        return Columns(
            source,
            target,
            f"the first line names the columns: {source} is the source, {target} the target" + left(others),
        )
    more = f"; {len(first) - 2} more are left aside" if len(first) > 2 else ""
    return Columns(0, 1, f"no header in the first line: column 0 is the source, column 1 the target{more}")


def json_columns(head: list[str], name: str) -> Columns:
    """The keys of the first objects whose values are text or lists of text."""
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
        found = f"only {', '.join(keys)}" if keys else "none"
        raise DataError(f'{name}: two keys with text are needed, found {found}; write {{"source": ..., "target": ...}}')
    source, target = choose(list(keys))
    others = [key for key in keys if key not in (source, target)]
    return Columns(source, target, f"JSONL: the key {source} is the source, {target} the target" + left(others))


def is_header(cells: list[str]) -> bool:
    """Whether a first line names columns: all different, and at least one is a name we know."""
    names = [cell.lower() for cell in cells]
    known = [name for name in names if len(name) > 2 and name in (*SOURCES, *TARGETS)]
    short = [name for name in names if name in (*SOURCES, *TARGETS)]
    return len(set(names)) == len(names) and (bool(known) or len(short) >= 2)


def choose(names: list[str]) -> tuple[str, str]:
    """Source and target among names: those we know, else the first two in their order."""

    def best(known: tuple[str, ...], besides: str | None) -> str | None:
        ranked = [name for word in known for name in names if name.lower() == word and name != besides]
        return ranked[0] if ranked else None

    source = best(SOURCES, None)
    target = best(TARGETS, source)
    rest = [name for name in names if name not in (source, target)]
    source = source or rest.pop(0)
    return source, target or rest.pop(0)


def left(others: list[str]) -> str:
    """The columns that are not used."""
    return f" (left aside: {', '.join(others)})" if others else ""


def one_column(head: list[str], name: str, separator: str) -> str:
    """What to do about a file in which the lines have only one column."""
    filled = [line for line in head if line.strip()]
    for mark, advice in ((",", "rename it to .csv"), ("\t", "rename it to .tsv"), ("|||", "replace ' ||| ' by tabs")):
        if filled and all(mark in line for line in filled):
            return f"{name}: no {separator} in its first line, but '{mark!r}' in every line; {advice}".replace(
                "''", "'"
            )
    return (
        f"{name}: one column only, no {separator} in its first line; separate source and target by a tab, "
        "or give two files, one for each side"
    )
