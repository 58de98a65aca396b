"""From lengths to a plan of batches, and from rows of a corpus to tensors.

A plan is a pure function of (lengths, budget, seed, epoch). Where training stands is (epoch, index in the plan),
and the plan does not depend on how many processes share it.
"""
# B batch, S source steps, T target steps, N rows of the corpus

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from antiphon.sequence import Sequence, Several
from antiphon.sources.ragged import Ragged
from antiphon.sources.rows import Chance, Corpus, FileRows, Rows, SeveralRows
from antiphon.sources.source import Read, Values
from antiphon.sources.vocabulary import EOS, PAD, SOS

__all__ = ["Batch", "collate", "padding_share", "plan", "source_batch"]

Ints = npt.NDArray[np.integer[Any]]
Spoil = Callable[[int, Ints], Ints]  # the number of a row and its ids -> what the model is shown (see noise.py)


@dataclass(frozen=True)
class Batch:
    """Teacher forcing: inputs are <s> y_1 .. y_n [B, T], outputs are y_1 .. y_n </s> [B, T]."""

    source: Sequence | Several
    inputs: Tensor
    outputs: Sequence


def plan(
    source_lengths: Ints, target_lengths: Ints, *, budget: int, seed: int, epoch: int, likeness: Ints | None = None
) -> list[Ints]:
    """Batches of row numbers, each row once: rows x max(longest source, longest target) <= budget.

    A row longer than the budget is a batch of its own. Lengths count the </s>. Neighbours are sources of like length,
    or of what is given instead.
    """
    generator = np.random.default_rng([seed, epoch])
    order = _serpentine(source_lengths if likeness is None else likeness, target_lengths, generator)
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


def collate(corpus: Corpus, rows: Ints, spoil: Spoil | None = None, chance: Chance | None = None) -> Batch:
    """The rows of a corpus as tensors, with <s> and </s> where they belong; sources are spoilt first, if asked for.

    Files are read with the random numbers of `chance`.
    """
    target, target_lengths = _padded(corpus.target, rows)
    inputs = np.empty_like(target)
    inputs[:, 0] = SOS
    inputs[:, 1:] = target[:, :-1]
    return Batch(
        source=_sources(corpus.source, rows, spoil, chance),
        inputs=torch.from_numpy(inputs),
        outputs=_closed(target, target_lengths),
    )


def source_batch(rows: Items[Read]) -> Sequence | Several:
    """Sources that have been read, padded to the longest; a text has </s> at its end."""
    if not isinstance(rows[0], tuple):
        return _part_batch([row for row in rows if not isinstance(row, tuple)])
    tuples = [row for row in rows if isinstance(row, tuple)]
    return Several(tuple(_part_batch(list(parts)) for parts in zip(*tuples, strict=True)))


def _part_batch(rows: list[Values]) -> Sequence:
    ids = [row for row in rows if isinstance(row, list)]
    if ids:
        return Sequence.of_ids([[*row, EOS] for row in ids], PAD)
    return Sequence.of_vectors([row for row in rows if not isinstance(row, list)])


def _sources(sources: Rows, rows: Ints, spoil: Spoil | None, chance: Chance | None) -> Sequence | Several:
    if isinstance(sources, SeveralRows):
        return Several(tuple(_source(part, rows, None, chance, n) for n, part in enumerate(sources.parts)))
    return _source(sources, rows, spoil, chance, 0)


def _source(
    sources: Ragged | FileRows, rows: Ints, spoil: Spoil | None, chance: Chance | None, number: int
) -> Sequence:
    if isinstance(sources, FileRows):
        return Sequence.of_vectors(list(sources.read(rows, number, chance)))
    if spoil is not None:
        sources, rows = _spoilt(sources, rows, spoil), np.arange(len(rows))
    return _closed(*_padded(sources, rows))


def _serpentine(source_lengths: Ints, target_lengths: Ints, generator: np.random.Generator) -> Ints:
    """Rows by target length; within one, by source length, up and down in turn so that neighbours stay alike."""
    ties = generator.permutation(len(target_lengths))
    direction = np.where(target_lengths % 2 == 0, 1, -1)
    return np.lexsort((ties, source_lengths * direction, target_lengths))


def _rows_that_fit(longest: Ints, start: int, budget: int) -> int:
    """How many rows from `start` on stay within the budget; at least one."""
    window = np.maximum.accumulate(longest[start : start + max(1, budget // max(1, int(longest[start])))])
    cost = window * np.arange(1, len(window) + 1)
    return max(1, int(np.searchsorted(cost, budget, side="right")))


def _padded(ragged: Ragged, rows: Ints) -> tuple[npt.NDArray[np.int64], Ints]:
    """Ids [B, longest + 1] padded with PAD, so that one more token fits into every row; and the lengths [B]."""
    starts = ragged.offsets[rows]
    lengths = ragged.offsets[np.asarray(rows) + 1] - starts
    positions = np.arange(int(lengths.max(initial=0)) + 1)
    real = positions < lengths[:, None]
    values = np.full(real.shape, PAD, dtype=np.int64)
    values[real] = ragged.ids[(starts[:, None] + positions)[real]]
    return values, lengths


def _spoilt(sources: Ragged, rows: Ints, spoil: Spoil) -> Ragged:
    """These rows alone, as the model is shown them."""
    return Ragged.of([spoil(int(row), sources[int(row)]).tolist() for row in rows])


def _closed(values: npt.NDArray[np.int64], lengths: Ints) -> Sequence:
    """The rows with </s> after their last token."""
    values[np.arange(len(lengths)), lengths] = EOS
    mask = np.arange(values.shape[1]) <= lengths[:, None]
    return Sequence(torch.from_numpy(values), torch.from_numpy(mask))
