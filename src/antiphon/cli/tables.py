"""Tables on stdout: plain text, columns one below the other."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.cli.output import one_line, put_line
from antiphon.visible import visible

__all__ = ["put_columns"]


def put_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column to the left, the others to the right; wide letters take two places, as in a terminal."""
    from rich.cells import cell_len

    table = [[visible(one_line(cell), keep=" ") for cell in row] for row in (head, *rows)]
    widths = [max(cell_len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        spaces = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        right = [space + cell for cell, space in zip(row[1:], spaces[1:], strict=True)]
        put_line("  ".join([row[0] + spaces[0], *right]).rstrip())
