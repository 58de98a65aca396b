"""Pairs as ids, or as paths and lengths: what fits is kept, what does not is counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from antiphon.config.schema import DataConfig
from antiphon.sources.looking import Looked
from antiphon.sources.pairs import Dropped, Pair
from antiphon.sources.readers import is_file, joined
from antiphon.sources.rows import Cell
from antiphon.sources.source import BETWEEN, Source
from antiphon.sources.streams import StreamTokenizer
from antiphon.sources.tokens import Tokenizer

__all__ = ["Encoded", "Encoder", "source_names", "text_names"]

CHUNK = 4096


class Encoded(NamedTuple):
    """A pair and its two sides as ids, or as a path and a length; `sources` has one for each source.

    A line of a stream has its line end at the end of its target.
    """

    pair: Pair
    sources: tuple[list[int] | Cell, ...]
    target: list[int]


@dataclass(frozen=True)
class Encoder:
    """Pairs to ids; one that is too long for data.source or data.target, or cannot be read, is dropped and counted.

    A line of a stream may be of any length: the stream is cut into windows.
    """

    data: DataConfig
    sources: list[Tokenizer | Looked]
    target: Tokenizer
    dropped: Dropped

    @property
    def source(self) -> Source:
        """All of them as one."""
        return joined([one.source if isinstance(one, Looked) else one for one in self.sources])

    @property
    def texts(self) -> dict[str, Tokenizer]:
        """The sources that are texts, by the names of their sides."""
        names = zip(source_names(self.data), self.sources, strict=False)
        return {name: one for name, one in names if isinstance(one, Tokenizer)}

    def chunks(self, files: str | list[str], pairs: Iterable[Pair]) -> Iterator[list[Encoded]]:
        """The pairs of some files that are short enough, many at a time."""
        pairs = iter(pairs)
        while chunk := list(islice(pairs, CHUNK)):
            chunk, sources = self._sources(files, chunk)
            rows = map(Encoded, chunk, sources, self._targets(chunk))
            yield [row for row in rows if self.data.window is not None or self._is_short(files, row)]

    def _sources(
        self, files: str | list[str], chunk: list[Pair]
    ) -> tuple[list[Pair], list[tuple[list[int] | Cell, ...]]]:
        """The pairs whose files can be read, and their sources."""
        if self.data.source is None:
            return chunk, [() for _ in chunk]
        several = len(self.sources) > 1
        cells = [pair.source.split(BETWEEN) if several else [pair.source] for pair in chunk]
        columns = [self._column(one, [row[n] for row in cells]) for n, one in enumerate(self.sources)]
        kept, sources = [], []
        for pair, row, parts in zip(chunk, cells, zip(*columns, strict=True), strict=True):
            found = tuple(part for part in parts if part is not None)
            if len(found) == len(parts):
                kept.append(pair)
                sources.append(found)
            else:
                self._unreadable(files, pair, row)
        return kept, sources

    def _column(self, source: Tokenizer | Looked, cells: list[str]) -> Sequence[list[int] | Cell | None]:
        if isinstance(source, Tokenizer):
            return source.encode_batch(cells)
        source.at(cells)
        return [source.cell(cell) for cell in cells]

    def _unreadable(self, files: str | list[str], pair: Pair, cells: list[str]) -> None:
        name = files if isinstance(files, str) else files[0]
        for source, cell in zip(self.sources, cells, strict=True):
            if isinstance(source, Looked) and cell in source.faults:
                self.dropped.add_unreadable(name, pair.line, cell, source.faults[cell])
                return

    def _targets(self, chunk: list[Pair]) -> list[list[int]]:
        if self.data.window is None:
            return self.target.encode_batch([pair.target for pair in chunk])
        return StreamTokenizer(self.target).encode_batch([f"{pair.target}\n" for pair in chunk])

    def _is_short(self, files: str | list[str], row: Encoded) -> bool:
        source_file, target_file = (files, files) if isinstance(files, str) else files
        for name, config, part in zip(source_names(self.data), self.data.sources, row.sources, strict=False):
            if len(part) > config.max_length:
                unit = "positions" if isinstance(part, Cell) else "tokens"
                self.dropped.add(source_file, row.pair.line, f"{name} longer than {config.max_length} {unit}")
                return False
        if len(row.target) > self.data.target.max_length:
            side = "target" if self.data.source else "text"
            longest = self.data.target.max_length
            self.dropped.add(target_file, row.pair.line, f"{side} longer than {longest} tokens")
            return False
        return True


def source_names(data: DataConfig) -> list[str]:
    """What each source is called in the facts and on disk: source, or source[0] and so on."""
    return [data.place(number).removeprefix("data.") for number in range(len(data.sources))] or ["source"]


def text_names(data: DataConfig) -> list[str]:
    both = zip(source_names(data), data.sources, strict=False)
    return [name for name, source in both if not is_file(source)]
