"""Input and output of the commands: data goes to stdout, messages go to stderr."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, BinaryIO, TypeVar

from antiphon.errors import UserError
from antiphon.text import nearest, pack, visible

__all__ = [
    "METRICS", "FlagCounter", "check_metrics", "in_batches", "input_lines", "is_pipe", "one_line", "pair_files",
    "print_json", "print_line", "print_note", "print_sections", "print_table", "print_text", "program", "say",
    "say_dropped", "say_dropped_lines", "to_json_line",
]  # fmt: skip

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # C0, DEL and C1: every escape sequence begins with one


def one_line(text: str) -> str:
    """A text as one field of one line: line breaks and tabs become \\n and \\t."""
    return text.replace("\n", "\\n").replace("\t", "\\t")


def print_line(*fields: str) -> None:
    """Print fields separated by tabs; a terminal gets control characters as visible text."""
    shown = [one_line(field) for field in fields]
    sys.stdout.write("\t".join(visible(field, keep=" \t") if sys.stdout.isatty() else field for field in shown) + "\n")


def print_note(*fields: str) -> None:
    """Print fields as `print_line` does; a terminal gets long lines with line ends between words."""
    lines = terminal_lines("  ".join(fields)) if sys.stdout.isatty() else []
    for line in lines:
        print_line(line)
    if not lines:
        print_line(*fields)


def print_text(text: str, *, first: bool) -> None:
    """Print a text of several lines, after an empty line unless it is the first."""
    shown = visible(text, keep=" \t\n") if sys.stdout.isatty() else text
    sys.stdout.write(f"{'' if first else chr(10)}{shown}\n")


def to_json_line(value: dict[str, Any]) -> str:
    """A JSON object on one line; NaN and infinity become null, control characters are escaped."""
    text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False)
    return CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


def print_json(value: dict[str, Any]) -> None:
    """Print a JSON object on one line."""
    sys.stdout.write(to_json_line(value))


def finite(value: Any) -> Any:  # noqa: ANN401 (any JSON)
    """The value with None for NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [finite(item) for item in value]
    return {key: finite(item) for key, item in value.items()} if isinstance(value, dict) else value


def program() -> str:
    """The command that starts this program: `antiphon` if the shell finds it, else as it was started."""
    if shutil.which("antiphon"):
        return "antiphon"
    if Path(sys.argv[0]).name == "antiphon":
        return shlex.quote(sys.argv[0])
    return shlex.join([sys.executable, "-m", "antiphon.cli.main"])


def say(text: str) -> None:
    """Write one or more lines to stderr; a terminal gets long ones with line ends between words."""
    for line in text.split("\n"):
        shown = f"antiphon: {visible(line, keep=' ')}"
        lines = terminal_lines(shown) if sys.stderr.isatty() else [shown]
        sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


def terminal_lines(text: str) -> list[str]:
    """A line as lines that fit the terminal, broken between words."""
    return pack(text.split(" "), shutil.get_terminal_size().columns, gap=" ")


# Lines from a file or from stdin, a batch at a time.


def input_lines(file: str | None) -> Iterator[str]:
    """The lines of a file, or of stdin when there is none or it is `-`; lines end at \\n only."""
    if file not in (None, "-"):
        from antiphon.data.lines import read_lines

        return (line.text for line in read_lines(Path(str(file))))
    if sys.stdin is None:
        raise UserError("stdin is closed; name a file of lines, or - and send lines")
    if sys.stdin.isatty():
        say("type a line and press Enter; end with Ctrl-D")
    from antiphon.data.lines import lines_of

    return (line.text for line in lines_of(open_stdin(), "stdin"))


def open_stdin() -> BinaryIO:
    """The bytes of stdin with a buffer of its own: at exit Python closes that of sys.stdin, which a thread may hold."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except OSError:  # it is no file: a test, or a notebook
        return sys.stdin.buffer


WAIT = 0.05  # seconds that a batch waits for more lines
T = TypeVar("T")


@dataclass(frozen=True)
class End:
    """The last entry of a queue."""

    error: Exception | None = None


def in_batches(lines: Iterator[T], size: int, file: str | None) -> Iterator[list[T]]:
    """Lists of at most `size` lines of a file or of stdin; a list from a pipe has those that are there."""
    if not is_pipe(file):
        while batch := list(itertools.islice(lines, size)):
            yield batch
        return
    queue: Queue[T | End] = Queue(2 * size)
    Thread(target=fill_queue, args=(lines, queue), daemon=True).start()
    entries: list[T | End] = []
    while not (entries and isinstance(entries[-1], End)):
        entries = waiting_entries(queue, size)
        if found := [entry for entry in entries if not isinstance(entry, End)]:
            yield found
    if isinstance(entries[-1], End) and entries[-1].error is not None:
        raise entries[-1].error


def is_pipe(file: str | None) -> bool:
    """True unless all lines of the input are there already."""
    try:
        path = sys.stdin.fileno() if file in (None, "-") else str(file)
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def fill_queue(lines: Iterator[T], queue: Queue[T | End]) -> None:
    """Put all lines into a queue, then the end."""
    try:
        for line in lines:
            queue.put(line)
        queue.put(End())
    except Exception as error:
        queue.put(End(error))  # raised where the lines are answered


def waiting_entries(queue: Queue[T | End], size: int) -> list[T | End]:
    """The first entry, whenever it comes, and those behind it that come soon; none follows an end."""
    entries, deadline = [queue.get()], time.monotonic() + WAIT
    while len(entries) < size and not isinstance(entries[-1], End):
        try:
            entries.append(queue.get(timeout=max(0.0, deadline - time.monotonic())))
        except Empty:
            break
    return entries


# Flags of answers on stderr: the first ones are listed, the rest are counted.

MAX_LISTED = 20


@dataclass
class FlagCounter:
    """Counts printed lines and those with flags, and lists the first flags."""

    lines: int = 0
    flagged: int = 0
    unlisted: int = 0

    def add(self, flags: list[str], *, listed: bool) -> None:
        """Count a line, and list its flags if few were listed so far."""
        self.lines += 1
        self.flagged += bool(flags)
        if flags and listed and self.flagged <= MAX_LISTED:
            say(f"line {self.lines}: {'; '.join(flags)}")
        elif flags:
            self.unlisted += 1

    def close(self) -> None:
        """Log the number of flagged lines if some were not listed."""
        if self.unlisted:
            say(f"{self.flagged} of {self.lines} lines are flagged; --json shows all flags")


# Tables on stdout.


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Print columns, the first `left` of them left-aligned, the others right-aligned; wide characters count twice."""
    from rich.cells import cell_len

    table = [[visible(one_line(cell), keep=" ") for cell in row] for row in (head, *rows)]
    widths = [max(cell_len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        spaces = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [cell + space for cell, space in zip(row[:left], spaces[:left], strict=True)]
        cells += [space + cell for cell, space in zip(row[left:], spaces[left:], strict=True)]
        print_line("  ".join(cells).rstrip())


def print_sections(sections: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Print names and values by subject: a table for a terminal, else a line each, separated by tabs."""
    if not sys.stdout.isatty():
        for subject, rows in sections.items():
            for name, value in rows:
                print_line(subject, name, value)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    table.add_column(justify="right")
    for subject, rows in sections.items():
        for number, (name, value) in enumerate(rows):
            table.add_row("" if number else subject, name, value, end_section=number == len(rows) - 1)
    Console().print(table, markup=False, highlight=False)


# The metrics of the configuration, repeated because `--help` must not load it; a test compares the two.
METRICS = (
    "loss", "perplexity", "word_perplexity", "bits_per_character", "exact_match", "token_accuracy",
    "span_f1", "token_error_rate", "cer", "wer", "per", "bleu", "bleu_1", "bleu_2", "bleu_3", "chrf", "ter", "rouge_1",
    "rouge_2", "rouge_l",
)  # fmt: skip


def pair_files(names: list[str]) -> str | list[str]:
    """One file of pairs, or a source and a target file."""
    if len(names) > 2:
        raise UserError(f"{len(names)} files: give one file of pairs or two parallel files; join them first")
    return names[0] if len(names) == 1 else names


def check_metrics(names: list[str] | None) -> list[str] | None:
    """The names, or None for none; UserError if there is no such metric."""
    from antiphon.registry import load_plugins, registered_names

    problems = [] if set(names or []) <= set(METRICS) else load_plugins()
    known = [*METRICS, *registered_names("metric")]
    for name in names or []:
        if name not in known:
            close = "exact_match" if name == "accuracy" else nearest(name, known)  # whole answers, not tokens
            hint = f"did you mean '{close}'?" if close else f"the metrics are {', '.join(known)}"
            problems.append(f"--metric: no metric is called '{name}'; {hint}")
    if problems:
        raise UserError(problems)
    return names or None


def say_dropped_lines(facts: dict[str, Any]) -> None:
    """Log the first lines that were left out, with the reasons, from `DropLog.facts()`."""
    for place in facts["places"]:
        path = f"{place['path']}: " if "path" in place else ""
        say(f"{place['file']}, line {place['line']}: {path}{place['reason']}; left out")


def say_dropped(facts: dict[str, Any]) -> None:
    """Log the first lines that were left out, and their total if there are more."""
    say_dropped_lines(facts)
    if facts["total"] > len(facts["places"]):
        reasons = ", ".join(f"{count} x {reason}" for reason, count in facts["reasons"].items())
        say(f"left out in all: {facts['total']} ({reasons})")
