"""The training pairs of a run, read once more to be counted."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.config.schema import DataConfig
from antiphon.sources.amounts import by_reason
from antiphon.sources.holdout import HoldOut
from antiphon.sources.pairs import Dropped, read_pairs
from antiphon.sources.tokens import Tokenizer
from antiphon.training.check import nothing_usable

__all__ = ["MOST", "Pair", "counted_pairs"]

MOST = 200_000  # pairs that are counted

Pair = tuple[list[int], list[int]]


def counted_pairs(data: DataConfig, source: Tokenizer, target: Tokenizer, say: Callable[[str], None]) -> list[Pair]:
    """The pairs as ids, less those that are held out as dev; what is left out is said."""
    say(f"counting {data.train if isinstance(data.train, str) else ' and '.join(data.train)}")
    pairs: list[Pair] = []
    dropped, held_out = Dropped(), HoldOut.choose(data)
    for pair in read_pairs(data.train, data, dropped):
        if held_out.holds(pair):
            continue
        if len(pairs) == MOST:
            say(f"there are more pairs; the first {MOST:,} are counted")
            break
        pairs.append((source.encode(pair.source), target.encode(pair.target)))
    if not pairs:
        raise nothing_usable(data.train, data, dropped)
    if dropped.total:
        say(f"left out: {by_reason(dropped.reasons)}")
    return pairs
