"""Lines from a file or from stdin, a batch at a time."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from antiphon.cli.output import say
from antiphon.errors import DataError

__all__ = ["in_batches", "input_lines"]


def input_lines(file: str | None) -> Iterator[str]:
    """The lines of a file, or of stdin when there is none or it is `-`; lines end at \\n only."""
    if file not in (None, "-"):
        from antiphon.sources.lines import read_lines

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
