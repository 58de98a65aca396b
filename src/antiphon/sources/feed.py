"""What an epoch is made of: a plan, and the batches it names. One kind for pairs and lines, one for a stream.

The loop knows no more than this, so where training stands is (epoch, index in the plan) for both.
"""
# B batch or parallel streams, T target steps

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from antiphon.sequence import Sequence
from antiphon.sources.batches import Batch, collate, padding_share, plan, source_batch
from antiphon.sources.noise import OF_FILES, Noise
from antiphon.sources.rows import Chance, Corpus, likeness, read_lengths
from antiphon.sources.vocabulary import EOS, PAD, SOS, UNK

__all__ = ["Batches", "PairBatches", "StreamBatches"]

Ints = npt.NDArray[np.integer[Any]]


class Batches(ABC):
    """The plan is a pure function of the data, the budget, the seed and the epoch."""

    carries: bool = False  # the state after a batch is the one before the next

    @property
    def forbidden(self) -> tuple[int, ...]:
        """What no text has inside, so a model does not say it there: an answer does not go on after </s>."""
        return (PAD, SOS, EOS, UNK)

    @abstractmethod
    def plan(self, epoch: int) -> list[Ints]:
        """The batches of an epoch, in their order; what the numbers in each mean is `collate`'s business."""

    @abstractmethod
    def collate(self, rows: Ints, epoch: int) -> Batch:
        """One batch of the plan as tensors."""

    @abstractmethod
    def tokens(self, rows: Ints) -> int:
        """Real target tokens of a batch: what its loss is divided by."""

    @abstractmethod
    def padding(self, batches: list[Ints]) -> float:
        """The share of a plan's positions that is padding."""


@dataclass(frozen=True)
class PairBatches(Batches):
    """Rows of like length together; the rows of a language model's corpus have empty sources."""

    corpus: Corpus
    budget: int
    seed: int
    noise: Noise | None = None  # what is done to the sources

    @cached_property
    def lengths(self) -> tuple[Ints, Ints]:
        """Source and target lengths, </s> counts; a corpus without sources has none."""
        return read_lengths(self.corpus.source), self.corpus.target.lengths + 1

    def plan(self, epoch: int) -> list[Ints]:
        return plan(
            *self.lengths, budget=self.budget, seed=self.seed, epoch=epoch, likeness=likeness(self.corpus.source)
        )

    def collate(self, rows: Ints, epoch: int) -> Batch:
        return collate(self.corpus, rows, self.noise.of_epoch(epoch) if self.noise else None, self._chance(epoch))

    def _chance(self, epoch: int) -> Chance:
        """What is drawn for a file depends on where it stands and nothing else: not on the batch, nor a thread."""
        return lambda row, number: np.random.default_rng([self.seed, epoch, row, OF_FILES, number])

    def tokens(self, rows: Ints) -> int:
        return int(self.lengths[1][rows].sum())

    def padding(self, batches: list[Ints]) -> float:
        return padding_share(batches, *self.lengths)


@dataclass(frozen=True)
class StreamBatches(Batches):
    """A text as one stream of tokens, cut into B parallel streams, and these into windows, side by side.

    Every token is said once in an epoch. The input is the token before it in the text; before the first stands
    `start`. Each epoch begins at another token and goes round, so that the seams move. With `carries`, the state goes
    on from window to window, through all of a parallel stream, but the gradient does not:

    s_0 of window k = s_n of window k - 1, as a number
    """

    ids: Ints
    window: int
    streams: int
    start: int  # what stands before the first token
    seed: int
    carries: bool = False

    @classmethod
    def of(cls, ids: Ints, *, window: int, budget: int, start: int, seed: int, carries: bool) -> StreamBatches:
        """As many parallel streams as windows fit into the budget, but none shorter than a window."""
        streams = max(1, min(budget // window, len(ids) // window))
        return cls(ids, window, streams, start, seed, carries)

    @property
    def forbidden(self) -> tuple[int, ...]:
        """Line ends are tokens; for words and sub-words </s> is one."""
        return tuple({PAD, SOS, EOS, UNK} - {self.start})

    @cached_property
    def bounds(self) -> Ints:
        """Stream b is ids[bounds[b] : bounds[b + 1]]; lengths differ by one at most."""
        return np.arange(self.streams + 1) * len(self.ids) // self.streams

    def plan(self, epoch: int) -> list[Ints]:  # noqa: ARG002 (all epochs are alike, but for where they begin)
        """The columns of each window, in order: the state of one is needed for the next.

        The last takes what is left of the longer streams: one token more than a window at most, and none is empty.
        """
        shortest, longest = len(self.ids) // self.streams, -(-len(self.ids) // self.streams)
        cuts = [*range(0, shortest, self.window), longest]
        return [np.arange(start, end) for start, end in pairwise(cuts)]

    def collate(self, rows: Ints, epoch: int) -> Batch:
        places = self.bounds[:-1, None] + rows  # [B, T]
        real = places < self.bounds[1:, None]
        places = (places + self._turn(epoch)) % len(self.ids)
        outputs = np.where(real, self.ids[places], PAD).astype(np.int64)
        before = np.where(places > 0, self.ids[places - 1], self.start)
        inputs = np.where(real, before, PAD).astype(np.int64)
        return Batch(
            source=source_batch([[]] * self.streams),
            inputs=torch.from_numpy(inputs),
            outputs=Sequence(torch.from_numpy(outputs), torch.from_numpy(real)),
        )

    def _turn(self, epoch: int) -> int:
        """The token that an epoch begins with."""
        return int(np.random.default_rng([self.seed, epoch]).integers(len(self.ids)))

    def tokens(self, rows: Ints) -> int:
        return int((self.bounds[:-1, None] + rows < self.bounds[1:, None]).sum())

    def padding(self, batches: list[Ints]) -> float:
        return 1.0 - sum(map(self.tokens, batches)) / (self.streams * sum(map(len, batches)))
