"""Batches: the plan of an epoch, its rows as tensors, and prefetching by threads.

A plan is a pure function of (lengths, budget, seed, epoch), and a batch of its rows and the epoch. So training stands
at (epoch, index in the plan), and neither depends on how many processes or threads share the work.
"""
# B batch or parallel streams, S source steps, T target steps, N rows of the corpus

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from collections.abc import Sequence as Items
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from antiphon.config.schema import TrainingConfig
from antiphon.data.corpus import Chance, Corpus, FileRows, MultiSourceRows, Ragged, Rows, read_lengths, sorting_lengths
from antiphon.data.source import Ints, Read, Source, UnreadableError, Values
from antiphon.data.tokenizers import EOS, PAD, SOS, UNK, Tokenizer
from antiphon.errors import DataError
from antiphon.sequence import MultiSource, Sequence

if TYPE_CHECKING:
    from antiphon.data.noise import Noise

__all__ = [
    "Batch", "Batches", "PairBatches", "PrefetchedBatches", "StreamBatches", "batch_by_length", "build_noise",
    "noise_warnings", "reader_threads", "source_batch",
]  # fmt: skip

FILES_STREAM = 3  # last word of the seed of files; noise.py has 1 and 2
Corrupt = Callable[[int, Ints], Ints]  # the number of a row and its ids -> the ids with noise (see noise.py)


@dataclass(frozen=True)
class Batch:
    """Teacher forcing: inputs are <s> y_1 .. y_n [B, T], outputs are y_1 .. y_n </s> [B, T]."""

    source: Sequence | MultiSource
    inputs: Tensor
    outputs: Sequence


def plan(
    source_lengths: Ints, target_lengths: Ints, *, budget: int, seed: int, epoch: int, sort_by: Ints | None = None
) -> list[Ints]:
    """Batches of row numbers, each row once: rows x max(longest source, longest target) <= budget.

    A row longer than the budget is a batch of its own. Lengths count the </s>. Neighbours have similar source lengths,
    or similar values of `sort_by`.
    """
    generator = np.random.default_rng([seed, epoch])
    order = _serpentine(source_lengths if sort_by is None else sort_by, target_lengths, generator)
    longest = np.maximum(source_lengths, target_lengths)[order]
    batches = []
    start = 0
    while start < len(order):
        end = start + _rows_that_fit(longest, start, budget)
        batches.append(order[start:end])
        start = end
    return [batches[index] for index in generator.permutation(len(batches))]


def padding_share(batches: list[Ints], source_lengths: Ints, target_lengths: Ints) -> float:
    """1 - real / padded, over both sides."""
    real = padded = 0
    for rows in batches:
        for lengths in (source_lengths[rows], target_lengths[rows]):
            real += int(lengths.sum())
            padded += int(lengths.max()) * len(rows)
    return 1.0 - real / padded if padded else 0.0


def batch_by_length(
    lengths: Items[tuple[int, ...]], size: int, *, beam: int = 1, budget: int | None = None, min_batches: int = 1
) -> list[list[int]]:
    """Batches of row indices, the longest rows first, so that there is little padding.

    Lengths are those of the prompt, equal within a batch, then of the source. A batch has at most `size` rows, and
    rows x beam x the longest source fit the budget (None: any number). Rows are spread over `min_batches` batches if
    they suffice.
    """
    order = sorted(range(len(lengths)), key=lambda row: lengths[row], reverse=True)
    size = max(1, min(size, -(-len(order) // min_batches)))
    batches = []
    for _, group in groupby(order, key=lambda row: lengths[row][0]):
        rows = list(group)
        while rows:
            longest = max(1, lengths[rows[0]][1])  # the first row of a batch is its longest
            fit = size if budget is None else max(1, min(size, budget // beam // longest))
            batches.append(rows[:fit])
            rows = rows[fit:]
    return batches


def collate(corpus: Corpus, rows: Ints, corrupt: Corrupt | None = None, chance: Chance | None = None) -> Batch:
    """The rows of a corpus as tensors, with <s> and </s>; `corrupt` adds noise to the ids of the source.

    Files are read with the random numbers of `chance`.
    """
    target, target_lengths = _padded(corpus.target, rows)
    inputs = np.empty_like(target)
    inputs[:, 0] = SOS
    inputs[:, 1:] = target[:, :-1]
    return Batch(
        source=_sources(corpus.source, rows, corrupt, chance),
        inputs=torch.from_numpy(inputs),
        outputs=_closed(target, target_lengths),
    )


def source_batch(rows: Items[Read]) -> Sequence | MultiSource:
    """Sources, padded to the longest; a text has </s> at its end."""
    if not isinstance(rows[0], tuple):
        return _part_batch([row for row in rows if not isinstance(row, tuple)])
    tuples = [row for row in rows if isinstance(row, tuple)]
    return MultiSource(tuple(_part_batch(list(parts)) for parts in zip(*tuples, strict=True)))


def _part_batch(rows: list[Values]) -> Sequence:
    ids = [row for row in rows if isinstance(row, list)]
    if ids:
        return Sequence.of_ids([[*row, EOS] for row in ids], PAD)
    return Sequence.of_vectors([row for row in rows if not isinstance(row, list)])


def _sources(sources: Rows, rows: Ints, corrupt: Corrupt | None, chance: Chance | None) -> Sequence | MultiSource:
    if isinstance(sources, MultiSourceRows):
        return MultiSource(tuple(_source(part, rows, None, chance, n) for n, part in enumerate(sources.parts)))
    return _source(sources, rows, corrupt, chance, 0)


def _source(
    sources: Ragged | FileRows, rows: Ints, corrupt: Corrupt | None, chance: Chance | None, number: int
) -> Sequence:
    if isinstance(sources, FileRows):
        return Sequence.of_vectors(list(sources.read(rows, number, chance)))
    if corrupt is not None:
        sources = Ragged.of([corrupt(int(row), sources[int(row)]).tolist() for row in rows])
        rows = np.arange(len(rows))
    return _closed(*_padded(sources, rows))


def _serpentine(source_lengths: Ints, target_lengths: Ints, generator: np.random.Generator) -> Ints:
    """Rows by target length; within one, by source length, up and down in turn so that neighbours stay similar."""
    ties = generator.permutation(len(target_lengths))
    direction = np.where(target_lengths % 2 == 0, 1, -1)
    return np.lexsort((ties, source_lengths * direction, target_lengths))


def _rows_that_fit(longest: Ints, start: int, budget: int) -> int:
    """The number of rows from `start` on that fit into the budget; at least one."""
    window = np.maximum.accumulate(longest[start : start + max(1, budget // max(1, int(longest[start])))])
    cost = window * np.arange(1, len(window) + 1)
    return max(1, int(np.searchsorted(cost, budget, side="right")))


def _padded(ragged: Ragged, rows: Ints) -> tuple[npt.NDArray[np.int64], Ints]:
    """Ids [B, longest + 1] padded with PAD, with space for one more token in every row; and the lengths [B]."""
    starts = ragged.offsets[rows]
    lengths = ragged.offsets[np.asarray(rows) + 1] - starts
    positions = np.arange(int(lengths.max(initial=0)) + 1)
    real = positions < lengths[:, None]
    values = np.full(real.shape, PAD, dtype=np.int64)
    values[real] = ragged.ids[(starts[:, None] + positions)[real]]
    return values, lengths


def _closed(values: npt.NDArray[np.int64], lengths: Ints) -> Sequence:
    """The rows with </s> after their last token."""
    values[np.arange(len(lengths)), lengths] = EOS
    mask = np.arange(values.shape[1]) <= lengths[:, None]
    return Sequence(torch.from_numpy(values), torch.from_numpy(mask))


class Batches(ABC):
    """The batches of all epochs: of pairs or lines, or of a stream."""

    carries: bool = False  # the state after a batch is the one before the next

    @property
    def forbidden(self) -> tuple[int, ...]:
        """Tokens that never occur inside a text, so that a model does not predict them there."""
        return (PAD, SOS, EOS, UNK)

    @abstractmethod
    def plan(self, epoch: int) -> list[Ints]:
        """The batches of an epoch in order, as numbers that `collate` understands."""

    @abstractmethod
    def collate(self, rows: Ints, epoch: int) -> Batch:
        """One batch of the plan as tensors."""

    @abstractmethod
    def tokens(self, rows: Ints) -> int:
        """The number of real target tokens in a batch, by which its loss is divided."""

    @abstractmethod
    def padding(self, batches: list[Ints]) -> float:
        """The share of a plan's positions that is padding."""


def build_noise(training: TrainingConfig, source: Source) -> Noise | None:
    """The pretext tasks of a run, which only one text can have; None if there are none."""
    if not training.noise.enabled or not isinstance(source, Tokenizer):
        return None
    from antiphon.data.noise import Noise

    return Noise(training.noise, source, seed=training.seed)


def noise_warnings(training: TrainingConfig, source: Source, train: Corpus) -> list[str]:
    """Warnings of pretext tasks that change little, by the first training sources."""
    noise = build_noise(training, source)
    if noise is None or not isinstance(train.source, Ragged):
        return []
    return noise.warnings([train.source[row] for row in range(min(1000, len(train)))])


@dataclass(frozen=True)
class PairBatches(Batches):
    """Batches of rows of similar length; the rows of a language model's corpus have empty sources."""

    corpus: Corpus
    budget: int
    seed: int
    noise: Noise | None = None  # pretext tasks on the sources

    @cached_property
    def lengths(self) -> tuple[Ints, Ints]:
        """Source and target lengths with </s>; a corpus without sources has none."""
        return read_lengths(self.corpus.source), self.corpus.target.lengths + 1

    def plan(self, epoch: int) -> list[Ints]:
        by = sorting_lengths(self.corpus.source)
        return plan(*self.lengths, budget=self.budget, seed=self.seed, epoch=epoch, sort_by=by)

    def collate(self, rows: Ints, epoch: int) -> Batch:
        return collate(self.corpus, rows, self.noise.of_epoch(epoch) if self.noise else None, self._chance(epoch))

    def _chance(self, epoch: int) -> Chance:
        """The random numbers of a file depend on its row alone: not on the batch, nor on the thread."""
        return lambda row, number: np.random.default_rng([self.seed, epoch, row, FILES_STREAM, number])

    def tokens(self, rows: Ints) -> int:
        return int(self.lengths[1][rows].sum())

    def padding(self, batches: list[Ints]) -> float:
        return padding_share(batches, *self.lengths)


@dataclass(frozen=True)
class StreamBatches(Batches):
    """A text as one stream of tokens, cut into B parallel streams, and these into windows, side by side.

    Every token is predicted once in an epoch, from the token before it in the text; before the first one stands
    `start`. Each epoch begins at another token and wraps around, so that the seams move. With `carries`, the state is
    kept from window to window of a parallel stream, but the gradient is not (truncated back-propagation):

    s_0 of window k = s_n of window k - 1, as a number
    """

    ids: Ints
    window: int
    streams: int
    start: int  # the token before the first
    seed: int
    carries: bool = False

    @classmethod
    def of(cls, ids: Ints, *, window: int, budget: int, start: int, seed: int, carries: bool) -> StreamBatches:
        """One parallel stream for each window that fits into the budget, but none shorter than a window."""
        streams = max(1, min(budget // window, len(ids) // window))
        return cls(ids, window, streams, start, seed, carries)

    @property
    def forbidden(self) -> tuple[int, ...]:
        """Line ends are tokens of a stream; for words and sub-words that is </s>."""
        return tuple({PAD, SOS, EOS, UNK} - {self.start})

    @cached_property
    def bounds(self) -> Ints:
        """Stream b is ids[bounds[b] : bounds[b + 1]]; lengths differ by one at most."""
        return np.arange(self.streams + 1) * len(self.ids) // self.streams

    def plan(self, epoch: int) -> list[Ints]:  # noqa: ARG002 (epochs differ only in their first token)
        """The columns of each window, in order: the state of one is needed for the next.

        The last window takes the rest of the longer streams: at most one token more than a window, and none is empty.
        """
        shortest, longest = len(self.ids) // self.streams, -(-len(self.ids) // self.streams)
        cuts = [*range(0, shortest, self.window), longest]
        return [np.arange(start, end) for start, end in pairwise(cuts)]

    def collate(self, rows: Ints, epoch: int) -> Batch:
        places = self.bounds[:-1, None] + rows  # [B, T]
        real = places < self.bounds[1:, None]
        places = (places + self._first(epoch)) % len(self.ids)
        outputs = np.where(real, self.ids[places], PAD).astype(np.int64)
        before = np.where(places > 0, self.ids[places - 1], self.start)
        inputs = np.where(real, before, PAD).astype(np.int64)
        return Batch(
            source=source_batch([[]] * self.streams),
            inputs=torch.from_numpy(inputs),
            outputs=Sequence(torch.from_numpy(outputs), torch.from_numpy(real)),
        )

    def _first(self, epoch: int) -> int:
        """The position of the first token of an epoch."""
        return int(np.random.default_rng([self.seed, epoch]).integers(len(self.ids)))

    def tokens(self, rows: Ints) -> int:
        return int((self.bounds[:-1, None] + rows < self.bounds[1:, None]).sum())

    def padding(self, batches: list[Ints]) -> float:
        return 1.0 - sum(map(self.tokens, batches)) / (self.streams * sum(map(len, batches)))


MOST_THREADS = 4


def reader_threads() -> int:
    """The number of threads that read files: one for each core of this process, at most 4."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # macOS has none
    return min(MOST_THREADS, cores)


class PrefetchedBatches(Batches):
    """The batches of `inner`; threads read the next few of the newest plan while the model learns from one."""

    def __init__(self, inner: Batches, *, ahead: int = 4, threads: int | None = None) -> None:
        self.inner = inner
        self.ahead = ahead
        self._pool = ThreadPoolExecutor(threads or reader_threads(), thread_name_prefix="antiphon-reader")
        self._epoch = -1
        self._plan: list[Ints] = []
        self._places: dict[int, int] = {}  # the first row of a batch -> its place in the plan
        self._waiting: dict[int, Future[Batch]] = {}

    def plan(self, epoch: int) -> list[Ints]:
        for future in self._waiting.values():
            future.cancel()
        self._plan, self._epoch, self._waiting = self.inner.plan(epoch), epoch, {}
        self._places = {int(rows[0]): place for place, rows in enumerate(self._plan)}
        return self._plan

    def collate(self, rows: Ints, epoch: int) -> Batch:
        place = self._places.get(int(rows[0])) if epoch == self._epoch else None
        if place is None or not np.array_equal(self._plan[place], rows):
            return self._read(rows, epoch)
        for next_ in range(place, min(place + 1 + self.ahead, len(self._plan))):
            if next_ not in self._waiting:
                self._waiting[next_] = self._pool.submit(self._read, self._plan[next_], epoch)
        return self._waiting.pop(place).result()

    def tokens(self, rows: Ints) -> int:
        return self.inner.tokens(rows)

    def padding(self, batches: list[Ints]) -> float:
        return self.inner.padding(batches)

    def _read(self, rows: Ints, epoch: int) -> Batch:
        try:
            return self.inner.collate(rows, epoch)
        except UnreadableError as error:
            raise DataError(f"{error}; it was readable when training began; restore it and resume") from error
