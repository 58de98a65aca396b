"""Which piece of the source belongs to which piece of the target: expectation and maximisation over all cuts."""
# K pairs of equal lengths, E edges of their lattice, U units; S, T tokens of a source and a target; i, j places in them

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import UserError
from antiphon.sources.joint import NOTHING, SHAPES, Ints
from antiphon.training.counting import Pair

__all__ = ["Aligned", "align"]

ROUNDS = 6
CHUNK, MOST = 1_000_000, 50_000_000  # edges in one lattice, and in all: 200 MB

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Aligned:
    """The most probable cut of each pair that can be cut: numbers of units."""

    units: Ints  # [U, 4], as in JointNgrams
    rows: list[list[int]]


class Lattice:
    """All cuts of pairs that are equally long: an edge from (i, j) to (i + read, j + written) is a unit."""

    def __init__(self, pairs: list[Pair], sizes: tuple[int, int]) -> None:
        source, target = (np.array([pair[side] for pair in pairs], dtype=np.int64) for side in (0, 1))  # [K, S], [K, T]
        self.S, self.T = source.shape[1], target.shape[1]
        self.edges = _edges(self.S, self.T)
        keys = [_keys(source[:, i : i + a], target[:, j : j + b], sizes) for i, j, a, b in self.edges]
        self.found, numbers = np.unique(np.stack(keys), return_inverse=True)
        self.numbers = numbers.reshape(len(self.edges), len(pairs)).astype(np.int32)  # [E, K] among `found`

    def expected(self, p: Doubles) -> Doubles:
        """How often each found unit is used, over all cuts by their probability."""
        steps = p[self.numbers]  # [E, K]
        before, behind = self._sums(steps, forward=True), self._sums(steps, forward=False)
        whole = before[self.S, self.T]  # [K]
        shares = np.stack([
            before[i, j] * step * behind[i + a, j + b] for (i, j, a, b), step in zip(self.edges, steps, strict=True)
        ]) / whole  # fmt: skip
        return np.asarray(np.bincount(self.numbers.ravel(), weights=shares.ravel(), minlength=len(self.found)))

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
    """Units and cuts of the pairs that can be cut: neither is empty, the target at most twice as long.

    Of more pairs than fit into memory (MOST edges), the first.
    """
    tokens = [sorted({token for pair in pairs for token in pair[side]}) for side in (0, 1)]
    sizes = len(tokens[0]) + 1, len(tokens[1]) + 1
    if (sizes[0] * sizes[1]) ** 2 >= 2**63:
        raise UserError(
            f"joint n-grams: {sizes[0] - 1:,} and {sizes[1] - 1:,} different tokens are too many; they are for letters "
            "and sounds"
        )
    groups = _equally_long(pairs, [{token: place for place, token in enumerate(side)} for side in tokens])
    lattices = [Lattice(group, sizes) for group in groups]
    keys = np.unique(np.concatenate([np.zeros(0, np.int64), *(lattice.found for lattice in lattices)]))
    places = [np.searchsorted(keys, lattice.found) for lattice in lattices]
    p = np.full(len(keys), 1.0 / max(1, len(keys)))
    for number in range(ROUNDS):
        say(f"joint n-grams: pieces of source and target, round {number + 1} of {ROUNDS}")
        counts = np.zeros(len(keys))
        for lattice, place in zip(lattices, places, strict=True):
            counts[place] += lattice.expected(p[place])
        p = counts / counts.sum()
    rows = [
        [int(place[unit]) for unit in row]
        for lattice, place in zip(lattices, places, strict=True)
        for row in lattice.best(p[place])
    ]
    return _used(keys, rows, tokens)


def _edges(S: int, T: int) -> list[tuple[int, int, int, int]]:
    """Those on a way from (0, 0) to (S, T): a target can be twice as long as its source, and no longer."""
    return [
        (i, j, read, written)
        for i in range(S)
        for j in range(min(T, 2 * i) + 1)
        for read, written in SHAPES
        if i + read <= S and 0 <= T - j - written <= 2 * (S - i - read)
    ]


def _equally_long(pairs: list[Pair], numbers: list[dict[int, int]]) -> list[list[Pair]]:
    """Groups of pairs with their tokens numbered, at most CHUNK edges in each and MOST in all."""
    groups: dict[tuple[int, int], list[Pair]] = defaultdict(list)
    edges = {}
    total = 0
    for source, target in pairs:
        lengths = len(source), len(target)
        if not 0 < lengths[1] <= 2 * lengths[0]:
            continue
        if lengths not in edges:
            edges[lengths] = len(_edges(*lengths))
        total += edges[lengths]
        if total > MOST:
            break
        groups[lengths].append(([numbers[0][token] for token in source], [numbers[1][token] for token in target]))
    size = {lengths: max(1, CHUNK // edges[lengths]) for lengths in groups}
    return [
        group[first : first + size[lengths]]
        for lengths, group in groups.items()
        for first in range(0, len(group), size[lengths])
    ]


def _keys(source: Ints, target: Ints, sizes: tuple[int, int]) -> Ints:
    """A number for the unit of each row: its four tokens as digits, 0 where there is none."""
    key = np.zeros(len(source), np.int64)
    for side, base in zip((source, target), sizes, strict=True):
        for place in (0, 1):
            key = key * base + (side[:, place] + 1 if place < side.shape[1] else 0)
    return key


def _used(keys: Ints, rows: list[list[int]], tokens: list[list[int]]) -> Aligned:
    """Only the units that stand in a row, with numbers of their own and the tokens they are made of."""
    used = sorted({unit for row in rows for unit in row})
    number = {unit: place for place, unit in enumerate(used)}
    left, columns = keys[np.array(used, dtype=np.int64)], []
    for side in (1, 1, 0, 0):  # the last digit first
        known = np.array([NOTHING, *tokens[side]], dtype=np.int64)
        columns.append(known[left % len(known)])
        left = left // len(known)
    return Aligned(np.stack(columns[::-1], axis=1), [[number[unit] for unit in row] for row in rows])
