"""Flags of answers on stderr: nothing is lost in silence, and nobody is flooded."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.cli.output import say

__all__ = ["Flags"]

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
