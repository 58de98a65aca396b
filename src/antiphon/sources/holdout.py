"""Which examples of train become dev, when none is given."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass

import numpy as np

from antiphon.config.schema import DataConfig
from antiphon.errors import DataError
from antiphon.sources.pairs import Dropped, Pair, file_paths, read_pairs
from antiphon.sources.paths import Paths

__all__ = ["HoldOut", "part_of"]

MOST_HELD_OUT = 2000


@dataclass(frozen=True)
class HoldOut:
    """Sources whose hash is at most `limit` go to dev, with all their references; None: nothing does.

    A file counts by its path in the table, so it does not matter where the table lies. Texts without a source are
    chosen by the hash of the text. Of a stream the lines from `first_line` on are held out: holes in it would be seams.
    """

    limit: int | None = None
    first_line: int | None = None
    paths: Paths | None = None

    @classmethod
    def choose(cls, data: DataConfig) -> HoldOut:
        """data.hold_out of the different sources or texts, or of the lines of a stream: at least 1, at most 2,000."""
        if data.dev is not None:
            return cls()
        pairs = read_pairs(data.train, data, Dropped())
        if data.window is not None:
            lines = np.frombuffer(array("q", (pair.line for pair in pairs)), np.int64)
            return cls(first_line=int(lines[-_count(data, len(lines))]))
        paths = Paths.of_table(data, file_paths(data.train)[0][1])
        different = np.unique(np.frombuffer(array("Q", (_hash(pair, paths) for pair in pairs)), np.uint64))
        if not len(different):
            return cls()  # whoever reads the pairs will say so
        return cls(limit=int(different[_count(data, len(different)) - 1]), paths=paths)

    def holds(self, pair: Pair) -> bool:
        """Whether a pair belongs to dev."""
        if self.first_line is not None:
            return pair.line >= self.first_line
        return self.limit is not None and _hash(pair, self.paths) <= self.limit


def part_of(what: str, percent: str) -> str:
    """What is held out, in words: of the sources or texts, or of the lines of a stream."""
    return f"{'the last ' if what == 'lines' else ''}{percent} of the {what} (at most {MOST_HELD_OUT:,})"


def _count(data: DataConfig, different: int) -> int:
    if different == 1:
        name = data.train if isinstance(data.train, str) else data.train[0]
        what = "source" if data.source else "text" if data.window is None else "line"
        raise DataError(f"{name}: one {what} only, so none can be held out; set data.dev or add examples")
    return min(max(1, round(data.hold_out * different)), MOST_HELD_OUT)


def _hash(pair: Pair, paths: Paths | None) -> int:
    text = pair.source or pair.target
    if paths is not None and paths.needed:
        text = paths.relative(text)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
