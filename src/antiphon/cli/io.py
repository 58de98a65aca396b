"""What several commands do with files of pairs and metrics."""

from __future__ import annotations

import itertools
import json
import math
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.errors import DataError, UserError
from antiphon.text import visible

__all__ = [
    "METRICS",
    "Flags",
    "in_batches",
    "input_lines",
    "known_metrics",
    "one_line",
    "pair_files",
    "program",
    "put_columns",
    "put_json",
    "put_line",
    "put_text",
    "say",
    "say_dropped",
    "say_places",
]

# Data goes to stdout, talk goes to stderr.

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # C0, DEL and C1: every escape sequence begins with one


def one_line(text: str) -> str:
    """A text as one field of one line: a line break or tab inside it is shown as \\n or \\t."""
    return text.replace("\n", "\\n").replace("\t", "\\t")


def put_line(*fields: str) -> None:
    """One line of data, fields separated by tabs; on a terminal control characters are made visible."""
    shown = [one_line(field) for field in fields]
    sys.stdout.write("\t".join(visible(field, keep=" \t") if sys.stdout.isatty() else field for field in shown) + "\n")


def put_text(text: str, *, first: bool) -> None:
    """A text of several lines; an empty line parts it from the one before."""
    shown = visible(text, keep=" \t\n") if sys.stdout.isatty() else text
    sys.stdout.write(f"{'' if first else chr(10)}{shown}\n")


def put_json(value: dict[str, Any]) -> None:
    """One JSON object on one line; what is not a finite number is null, control characters are escaped."""
    text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False)
    sys.stdout.write(CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text) + "\n")


def finite(value: Any) -> Any:  # noqa: ANN401 (any JSON)
    """The value with null for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [finite(item) for item in value]
    return {key: finite(item) for key, item in value.items()} if isinstance(value, dict) else value


def program() -> str:
    """What to type to start this program again: its name if the shell finds it, else as it was started."""
    if shutil.which("antiphon"):
        return "antiphon"
    if Path(sys.argv[0]).name == "antiphon":
        return shlex.quote(sys.argv[0])
    return shlex.join([sys.executable, "-m", "antiphon.cli.main"])


def say(text: str) -> None:
    """One or more lines of talk."""
    for line in text.split("\n"):
        sys.stderr.write(f"antiphon: {visible(line, keep=' ')}\n")
    sys.stderr.flush()


# Lines from a file or from stdin, a batch at a time.


def input_lines(file: str | None) -> Iterator[str]:
    """The lines of a file, or of stdin when there is none or it is `-`; lines end at \\n only."""
    if file not in (None, "-"):
        from antiphon.data.lines import read_lines

        return (line.text for line in read_lines(Path(str(file))))
    if sys.stdin.isatty():
        say("type a line and press Enter; Ctrl-D ends")
    return stdin_lines()


def stdin_lines() -> Iterator[str]:
    """The lines of stdin."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            fact = f"not UTF-8 (byte 0x{line[error.start]:02X} at column {error.start + 1})"
            raise DataError(f"stdin, line {number}: {fact}; convert it to UTF-8") from None


def in_batches(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Lists of at most so many lines; at a keyboard every line is answered at once."""
    while batch := list(itertools.islice(lines, size)):
        yield batch


# Flags of answers on stderr: nothing is lost in silence, and nobody is flooded.

LISTED = 20  # flagged lines named on stderr; the rest is counted


@dataclass
class Flags:
    """How many lines were put out, and how many of them have a flag."""

    lines: int = 0
    flagged: int = 0
    unlisted: int = 0

    def add(self, flags: list[str], *, listed: bool) -> None:
        """Count a line, and say its flags if few were said so far."""
        self.lines += 1
        self.flagged += bool(flags)
        if flags and listed and self.flagged <= LISTED:
            say(f"line {self.lines}: {'; '.join(flags)}")
        elif flags:
            self.unlisted += 1

    def close(self) -> None:
        """Say how many flags were not said."""
        if self.unlisted:
            say(f"{self.flagged} of {self.lines} lines are flagged; --json shows all flags")


# Tables on stdout: plain text, columns one below the other.


def put_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column to the left, the others to the right; wide letters take two places, as in a terminal."""
    from rich.cells import cell_len

    table = [[visible(one_line(cell), keep=" ") for cell in row] for row in (head, *rows)]
    widths = [max(cell_len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        spaces = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        right = [space + cell for cell, space in zip(row[1:], spaces[1:], strict=True)]
        put_line("  ".join([row[0] + spaces[0], *right]).rstrip())


# Those of the configuration, written out because help must not load it; a test binds the two.
METRICS = (
    "loss", "perplexity", "word_perplexity", "bits_per_character", "exact_match", "token_accuracy", "cer", "wer", "per",
    "bleu", "bleu_1", "bleu_2", "bleu_3", "chrf", "ter", "rouge_1", "rouge_2", "rouge_l",
)  # fmt: skip


def pair_files(names: list[str]) -> str | list[str]:
    """One file of pairs, or a source and a target file."""
    if len(names) > 2:
        raise UserError(f"one file of pairs or two parallel files, got {len(names)}; join them first")
    return names[0] if len(names) == 1 else names


def known_metrics(names: list[str] | None) -> list[str] | None:
    """The metrics asked for, if they exist."""
    from antiphon.config.messages import nearest
    from antiphon.registry import load_plugins, registered_names

    problems = [] if set(names or []) <= set(METRICS) else load_plugins()
    known = [*METRICS, *registered_names("metric")]
    for name in names or []:
        if name not in known:
            close = "exact_match" if name == "accuracy" else nearest(name, known)  # of whole answers, not of tokens
            hint = f"did you mean '{close}'?" if close else f"the metrics are {', '.join(known)}"
            problems.append(f"--metric: no metric is called '{name}'; {hint}")
    if problems:
        raise UserError(problems)
    return names or None


def say_places(facts: dict[str, Any]) -> None:
    """The first lines that were left out, and why: `DropLog.facts()`."""
    for place in facts["places"]:
        path = f"{place['path']}: " if "path" in place else ""
        say(f"{place['file']}, line {place['line']}: {path}{place['reason']}; left out")


def say_dropped(facts: dict[str, Any]) -> None:
    """The same, and how many in all if there are more."""
    say_places(facts)
    if facts["total"] > len(facts["places"]):
        reasons = ", ".join(f"{count} x {reason}" for reason, count in facts["reasons"].items())
        say(f"left out in all: {facts['total']} ({reasons})")
