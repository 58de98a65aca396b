"""The columns of an unknown table or JSONL file: what they hold, and which are the sources and the target."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.autoconfig.column_choice import Choice, choose, choose_labels, usable
from antiphon.autoconfig.column_kinds import DESCRIPTIONS, FILE_KINDS, ColumnSample
from antiphon.autoconfig.column_names import name_score
from antiphon.autoconfig.header import DOUBT, ENOUGH, header_score
from antiphon.config.schema import DataConfig
from antiphon.config.sections import file_format
from antiphon.data.delimited import plural_name
from antiphon.data.lines import read_lines
from antiphon.data.tables import TableSample, has_lines, is_keyed, is_plain_text, reads_lines, sample_table, typical_row
from antiphon.errors import DataError
from antiphon.text import nearest, visible

__all__ = ["Columns", "find_columns", "is_table", "is_text"]

SAMPLE_LINES = 2000
MIN_CSV_LINES = 20  # fewer lines of prose may all have the same number of commas by chance
FLAGS = "--source and --target"


@dataclass(frozen=True)
class Columns:
    """The columns of the sources and the target, by name or number, and the reason for the choice.

    `kinds` has one for each source: text, or that of its files. `header` is true if the first line names the columns.
    """

    sources: list[int | str]
    kinds: list[str]
    target: int | str | list[int | str]
    header: bool
    reason: str
    warnings: list[str]

    @property
    def kind(self) -> str:
        """The kind of the first source; files come before texts."""
        return self.kinds[0]

    def data_config(self, train: str, dev: str | list[str] | None) -> DataConfig:
        """The data section with files and columns only."""
        sources = [{"kind": kind, "column": column} for kind, column in zip(self.kinds, self.sources, strict=True)]
        section: dict[str, Any] = {"train": train, "dev": dev, "target": {"column": self.target}}
        section["source"] = sources if len(sources) > 1 else sources[0]
        targets = self.target if isinstance(self.target, list) else [self.target]
        if self.header and not any(isinstance(column, str) for column in (*self.sources, *targets)):
            section["header"] = True
        return DataConfig.model_validate(section)


@dataclass(frozen=True)
class Sample:
    """The columns in the first lines of a file."""

    columns: list[ColumnSample]
    names: str  # "header", "keys" or "" for none
    warnings: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # keys whose values are no texts
    format: str = ""

    def key(self, column: ColumnSample) -> int | str:
        """The name of a column in the configuration: its title, or its number if it has none of its own."""
        titles = [other.title for other in self.columns]
        own = column.title and titles.count(column.title) == 1
        return column.title if own or self.names == "keys" else column.number

    def label(self, column: ColumnSample) -> str:
        """The column in a message."""
        return repr(visible(column.title, keep=" ")) if column.title else str(column.number)


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


def find_columns(path: Path, name: str, sources: Sequence[str] = (), target: Sequence[str] = ()) -> Columns:
    """The columns of a file. `sources` and `target` are names or numbers that the user chose; the rest is guessed."""
    read = sample_table(path, count=SAMPLE_LINES)
    sample = key_sample(read, path, name) if is_keyed(path) else table_sample(read, path, name, [*sources, *target])
    picked = [pick(sample, wanted, "--source", name) for wanted in sources]
    references = [pick(sample, wanted, "--target", name) for wanted in target]
    choice = complete(sample, picked, references)
    if choice is None:
        raise DataError(no_choice_message(sample, name))
    refuse_impossible(sample, choice, name)
    return described(sample, choice, chosen=bool(picked or references))


def described(sample: Sample, choice: Choice, *, chosen: bool) -> Columns:
    """The choice with its reason, and a warning that names the columns that are not used."""
    sources = sorted(choice.sources, key=lambda column: column.kind not in FILE_KINDS)
    keys, targets = [sample.key(column) for column in sources], [sample.key(column) for column in choice.targets]
    used = {column.number for column in (*sources, *choice.targets)}
    others = [column for column in sample.columns if column.number not in used and column.values]
    unused = [sample.label(column) for column in others] + [repr(key) for key in sample.unread]
    warnings = list(sample.warnings)
    if unused:
        noun = f"column {unused[0]} is" if len(unused) == 1 else f"columns {', '.join(unused)} are"
        warnings.append(f"{noun} not used; {FLAGS} choose others")
    return Columns(
        sources=keys,
        kinds=[column.kind if column.kind in FILE_KINDS else "text" for column in sources],
        target=targets if len(targets) > 1 else targets[0],
        header=sample.names == "header",
        reason=reason_for(sample, sources, choice, chosen=chosen),
        warnings=warnings,
    )


def reason_for(sample: Sample, sources: list[ColumnSample], choice: Choice, *, chosen: bool) -> str:
    """The choice in words."""
    noun = "" if sample.names else "column "
    names = [f"{noun}{sample.label(column).strip(chr(39))}" for column in sources]
    targets = [f"{noun}{sample.label(column).strip(chr(39))}" for column in choice.targets]
    start = {
        "header": "the first line names the columns",
        "keys": sample.format.upper(),
        "": "no header in the first line",
    }
    files = "".join(
        f"; {name} has paths of {DESCRIPTIONS[column.kind]}: data.source.kind {column.kind}"
        for name, column in zip(names, sources, strict=True)
        if column.kind in FILE_KINDS
    )
    verb = "are the sources" if len(names) > 1 else "is the source"
    many = f", {len(targets)} references" if len(targets) > 1 else ""
    return (
        f"{start[sample.names]}: {' and '.join(names)} {verb}, {' and '.join(targets)} the target{many}"
        f"{' (--source, --target)' if chosen else ''}{choice.why}{files}"
    )


# The first lines.


def table_sample(table: TableSample, path: Path, name: str, given: Sequence[str]) -> Sample:
    """The columns of a table; DataError if it has fewer than two."""
    rows = [row for row in table.rows if any(cell.strip() for cell in row.cells)]
    faulty = next((row for row in table.rows if row.fault and row.fault != "empty line"), None)
    if not rows and faulty:
        raise DataError(
            f"{name}, line {faulty.line}: {faulty.fault}, and the other lines are no better; correct the file"
        )
    width = len(typical_row(rows).cells) if rows else 0
    if width < 2:
        head = [line.text for line in itertools.islice(read_lines(path), SAMPLE_LINES)] if has_lines(path) else []
        raise DataError(single_column_message(head, name, plural_name(table.delimiter)))
    first = next(row for row in table.rows if not row.fault)
    rows = [row for row in rows if len(row.cells) == width]
    cells = [[cell.strip() for cell in row.cells] for row in rows]
    if file_format(path) == "conll":  # which has no header
        return Sample(column_samples([], cells, path.parent), "", format="conll")
    return sample_of_rows(cells, path.parent, name, given, line=rows[0].line, before=rows[0].line - first.line)


def sample_of_rows(
    cells: list[list[str]], folder: Path, name: str, given: Sequence[str], *, line: int, before: int
) -> Sample:
    """The columns of rows of one width, from this line on; a header has no readable line before it.

    A name that the user gave makes a header of the line that contains it.
    """
    first, *rows = cells
    titled, below, shown = column_samples(first, rows, folder), column_samples([], cells, folder, 1), ", ".join(first)
    known = name_score(first) if not rows else header_score(first, below)
    named = any(wanted in first and not wanted.isdecimal() for wanted in given)
    if (known >= ENOUGH or named) and not rows:
        raise DataError(f"{name}: a header ({shown}) and no row below it; add the examples")
    if (known >= ENOUGH or named) and not before:
        return Sample(titled, "header")
    if known >= ENOUGH:
        fact = f"line {line} ({shown}) looks like a header, but is not the first line, so it is read as an example"
        return Sample(below, "", [f"{fact}; remove the lines above it"])
    doubt = f"the first line ({shown}) is read as an example; if it is a header, give its names to {FLAGS}"
    return Sample(column_samples([], cells, folder), "", [doubt] if known >= DOUBT else [])


def column_samples(titles: list[str], rows: list[list[str]], folder: Path, start: int = 0) -> list[ColumnSample]:
    """The columns of rows of one width, with or without names."""
    width = len(titles) or len(rows[0])
    return [
        ColumnSample(n, titles[n] if titles else "", [row[n] for row in rows[start:]], folder) for n in range(width)
    ]


def key_sample(records: TableSample, path: Path, name: str) -> Sample:
    """The keys of JSON or parquet whose values are texts or lists of texts; DataError if there are fewer than two."""
    cells = {key: [row.cells[n].strip() for row in records.rows if row.cells] for n, key in enumerate(records.names)}
    texts = [key for key in records.names if any(cells[key])]
    unread = [key for key in records.names if key not in texts]
    if len(texts) < 2:
        present = f"only {', '.join(texts)}" if texts else "none"
        others = f" (no text in {', '.join(map(repr, unread[:10]))})" if unread else ""
        raise DataError(
            f'{name}: two keys with text are needed, found {present}{others}; write {{"source": ..., "target": ...}}'
        )
    columns = [ColumnSample(n, key, cells[key], path.parent, lists=key in records.lists) for n, key in enumerate(texts)]
    return Sample(columns, "keys", unread=unread, format=records.format)


# The user's choice, and errors.


def pick(sample: Sample, wanted: str, flag: str, name: str) -> ColumnSample:
    """The column that the user named by its title or number."""
    titles = [column.title for column in sample.columns]
    for column in sample.columns:
        if wanted in (column.title, str(column.number)) and not (wanted in titles and column.title != wanted):
            return column
    close = nearest(wanted, filter(None, titles))
    guess = f"did you mean {close!r}? " if close else ""
    known = ", ".join(map(sample.label, sample.columns))
    raise DataError(f"{name}: no column {wanted!r} for {flag}; {guess}it has {known}")


def complete(sample: Sample, sources: list[ColumnSample], targets: list[ColumnSample]) -> Choice | None:
    """The user's choice, and the guess for the side that the user did not choose."""
    if sources and targets:
        return Choice(sources, targets)
    guess = choose_labels(sample.columns) if sample.format == "conll" else choose(sample.columns)
    if not (sources or targets):
        return guess
    rest = [column for column in sample.columns if column not in (*sources, *targets)]
    guessed = [column for column in (guess.targets if sources else guess.sources) if column in rest] if guess else []
    free = guessed or usable(rest, 1)[:1]
    return Choice(sources or free, targets or free) if free else None


def refuse_impossible(sample: Sample, choice: Choice, name: str) -> None:
    """A target is a text, a column is one source, and one source at most has files."""
    problems = [
        f"{name}: the column {sample.label(column)} has paths of {DESCRIPTIONS[column.kind]}, but a target is text; "
        "choose another --target"
        for column in choice.targets
        if column.kind in FILE_KINDS
    ]
    problems += [
        f"{name}: {sample.label(column)} has lists of texts, which only a target can be; choose another --source"
        for column in choice.sources
        if column.lists
    ]
    numbers = [column.number for column in choice.sources]
    if len(set(numbers)) < len(numbers):
        problems.append(f"{name}: a column is given twice; name each --source once")
    if sum(column.kind in FILE_KINDS for column in choice.sources) > 1:
        problems.append(f"{name}: several columns of files; choose one with --source, and add others to the config")
    if problems:
        raise DataError(problems)


def no_choice_message(sample: Sample, name: str) -> str:
    """The columns with an example each, and the command that chooses."""
    shown = [
        f"{sample.label(column)} ({DESCRIPTIONS[column.kind]}: {visible(column.values[0][:30], keep=' ')!r})"
        if column.values
        else f"{sample.label(column)} (empty)"
        for column in sample.columns
    ]
    ranked = sorted(sample.columns, key=lambda column: column.kind not in ("text", "label"))
    keys = [shlex.quote(str(sample.key(column))) for column in ranked]
    return (
        f"{name}: no two columns that look like a source and a target: {', '.join(shown)}; choose them, for example: "
        f"antiphon init {shlex.quote(name)} --source {keys[0]} --target {keys[1]}; or, for a language model of one "
        f"column: antiphon train lm-lstm data.train={shlex.quote(name)} data.target.column={keys[0]}"
    )


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
