"""Numbers of things, in words."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["amount", "by_reason"]


def amount(count: int, things: str) -> str:
    """3 windows of 8 tokens, 1 window of 8 tokens: `things` are several, and their first word ends in s."""
    first, space, rest = things.partition(" ")
    return f"{count:,} {first.removesuffix('s') if count == 1 else first}{space}{rest}"


def by_reason(reasons: Mapping[str, int]) -> str:
    """3 x empty line, 1 x not JSON: the most frequent first."""
    ranked = sorted(reasons.items(), key=lambda one: -one[1])
    return ", ".join(f"{count:,} x {reason}" for reason, count in ranked)
