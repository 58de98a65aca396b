"""What is asked of a search, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from antiphon.decoding.constraints import Rule

__all__ = ["Ask", "Check"]

Check = Callable[[], None]
"""Called once per step; it may raise, and search stops at once."""


@dataclass(frozen=True)
class Ask:
    """So many sentences, from `start` to `end`."""

    sentences: int
    start: int | list[int]  # the token before the first, one for all or one for each
    end: int  # </s>
    max_length: int  # in tokens; </s> counts
    length_penalty: float = 0.0  # the exponent a of sum(log p) / length^a
    prefixes: list[list[int]] | None = None  # what an answer has to begin with, one for each
    rules: tuple[Rule, ...] = ()
    check: Check | None = None
