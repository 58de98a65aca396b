"""Which piece of the source belongs to which piece of the target: expectation and maximisation over all cuts."""
# K pairs of equal lengths, E edges of their lattice, U units; S, T tokens of a source and a target; i, j places in them

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.sources.joint import NOTHING, SHAPES, Ints
from antiphon.training.counting import Pair

__all__ = ["Aligned", "align"]

ROUNDS = 6
CHUNK = 4096  # pairs in one lattice

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Aligned:
    """The most probable cut of each pair that can be cut: numbers of units."""

    units: Ints  # [U, 4], as in JointNgrams
    rows: list[list[int]]


class Lattice:
    """All cuts of pairs that are equally long: an edge from (i, j) to (i + read, j + written) is a unit."""

    def __init__(self, pairs: list[Pair], size: int) -> None:
        source = np.array([pair[0] for pair in pairs], dtype=np.int64)  # [K, S]
        target = np.array([pair[1] for pair in pairs], dtype=np.int64).reshape(len(pairs), -1)  # [K, T]
        self.S, self.T = source.shape[1], target.shape[1]
        self.edges = [
            (i, j, read, written)
            for i in range(self.S)
            for j in range(self.T + 1)
            for read, written in SHAPES
            if i + read <= self.S and j + written <= self.T
        ]
        keys = [_keys(source[:, i : i + a], target[:, j : j + b], size) for i, j, a, b in self.edges]
        self.found, numbers = np.unique(np.stack(keys), return_inverse=True)
        self.numbers = numbers.reshape(len(self.edges), len(pairs)).astype(np.int32)  # [E, K] among `found`

    def expected(self, p: Doubles) -> tuple[Doubles, float]:
        """How often each found unit is used, over all cuts by their probability; and log p of all pairs."""
        steps = p[self.numbers]  # [E, K]
        before, behind = self._sums(steps, forward=True), self._sums(steps, forward=False)
        whole = before[self.S, self.T]  # [K]
        shares = np.stack([
            before[i, j] * step * behind[i + a, j + b] for (i, j, a, b), step in zip(self.edges, steps, strict=True)
        ]) / whole  # fmt: skip
        counts = np.bincount(self.numbers.ravel(), weights=shares.ravel(), minlength=len(self.found))
        return counts.astype(np.float64), float(np.log(whole).sum())

    def _sums(self, steps: Doubles, *, forward: bool) -> Doubles:
        """Σ of the probabilities of all ways from the beginning to (i, j), or from there to the end [S+1, T+1, K]."""
        sums = np.zeros((self.S + 1, self.T + 1, steps.shape[1]))
        sums[(0, 0) if forward else (self.S, self.T)] = 1.0
        for (i, j, a, b), step in list(zip(self.edges, steps, strict=True))[:: 1 if forward else -1]:
            if forward:
                sums[i + a, j + b] += sums[i, j] * step
            else:
                sums[i, j] += sums[i + a, j + b] * step
        return sums

    def best(self, p: Doubles) -> list[list[int]]:
        """The most probable cut of each pair, as places in `found`."""
        steps = p[self.numbers]
        best = np.zeros((self.S + 1, self.T + 1, steps.shape[1]))
        best[0, 0] = 1.0
        taken = np.zeros(best.shape, dtype=np.int32)  # the edge that led here
        for number, ((i, j, a, b), step) in enumerate(zip(self.edges, steps, strict=True)):
            value = best[i, j] * step
            better = value > best[i + a, j + b]
            best[i + a, j + b][better] = value[better]
            taken[i + a, j + b][better] = number
        return [self._walked_back(taken[:, :, column], column) for column in range(steps.shape[1])]

    def _walked_back(self, taken: NDArray[np.int32], column: int) -> list[int]:
        i, j, found = self.S, self.T, []
        while i > 0:
            number = int(taken[i, j])
            found.append(int(self.numbers[number, column]))
            _, _, a, b = self.edges[number]
            i, j = i - a, j - b
        return found[::-1]


def align(pairs: list[Pair], *, say: Callable[[str], None] = lambda _: None) -> Aligned:
    """Units and cuts of the pairs that can be cut: neither is empty, the target at most twice as long."""
    size = 2 + max((token for pair in pairs for side in pair for token in side), default=0)
    lattices = [Lattice(group, size) for group in _equally_long(pairs)]
    keys = np.unique(np.concatenate([np.zeros(0, np.int64), *(lattice.found for lattice in lattices)]))
    places = [np.searchsorted(keys, lattice.found) for lattice in lattices]
    p = np.full(len(keys), 1.0 / max(1, len(keys)))
    for number in range(ROUNDS):
        counts, total = np.zeros(len(keys)), 0.0
        for lattice, place in zip(lattices, places, strict=True):
            here, log_p = lattice.expected(p[place])
            counts[place] += here
            total += log_p
        p = counts / counts.sum()
        say(f"joint n-grams: pieces of source and target, round {number + 1} of {ROUNDS}")
    rows = [[int(place[unit]) for unit in row] for lattice, place in zip(lattices, places, strict=True)
            for row in lattice.best(p[place])]  # fmt: skip
    return _used(keys, rows, size)


def _equally_long(pairs: list[Pair]) -> list[list[Pair]]:
    """Groups of pairs, at most CHUNK in each."""
    groups: dict[tuple[int, int], list[Pair]] = defaultdict(list)
    for pair in pairs:
        lengths = len(pair[0]), len(pair[1])
        if 0 < lengths[1] <= 2 * lengths[0]:
            groups[lengths].append(pair)
    return [group[first : first + CHUNK] for group in groups.values() for first in range(0, len(group), CHUNK)]


def _keys(source: Ints, target: Ints, size: int) -> Ints:
    """A number for the unit of each row: its four tokens in base `size`, 0 where there is none."""
    parts = [side[:, place] + 1 if place < side.shape[1] else 0 for side in (source, target) for place in (0, 1)]
    return np.asarray(((parts[0] * size + parts[1]) * size + parts[2]) * size + parts[3] + 0 * source[:, 0])


def _used(keys: Ints, rows: list[list[int]], size: int) -> Aligned:
    """Only the units that stand in a row, with numbers of their own."""
    used = sorted({unit for row in rows for unit in row})
    number = {unit: place for place, unit in enumerate(used)}
    chosen = keys[np.array(used, dtype=np.int64)]
    units = np.stack([chosen // size**power % size - 1 for power in (3, 2, 1, 0)], axis=1)
    assert NOTHING == -1
    return Aligned(units, [[number[unit] for unit in row] for row in rows])
