"""Joint n-grams from the training pairs: segmented into units, counted, with Kneser-Ney smoothing."""
# K pairs of equal lengths, E edges of their lattice, U units; S, T tokens of a source and a target; i, j places in them
# an n-gram (h, u) is a history h of n - 1 units and the unit u after it; M different n-grams

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import UserError
from antiphon.ngrams.joint import END, FIRST, LONGEST, NOTHING, SHAPES, START, IdPair, Ints, JointNgrams

__all__ = ["Aligned", "Say", "align", "count_ngrams", "learn_joint"]

# Alignment of pieces of source and target: expectation maximisation over all segmentations.

ROUNDS = 6
CHUNK, MOST = 1_000_000, 50_000_000  # edges in one lattice, and in all: 200 MB

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Aligned:
    """The most probable segmentation of each pair that has one, as numbers of units."""

    units: Ints  # [U, 4], as in JointNgrams
    rows: list[list[int]]


class Lattice:
    """All segmentations of pairs of equal lengths: an edge from (i, j) to (i + read, j + written) is a unit."""

    def __init__(self, pairs: list[IdPair], sizes: tuple[int, int]) -> None:
        source, target = (np.array([pair[side] for pair in pairs], dtype=np.int64) for side in (0, 1))  # [K, S], [K, T]
        self.S, self.T = source.shape[1], target.shape[1]
        self.edges = _edges(self.S, self.T)
        keys = [_keys(source[:, i : i + a], target[:, j : j + b], sizes) for i, j, a, b in self.edges]
        self.keys, numbers = np.unique(np.stack(keys), return_inverse=True)
        self.numbers = numbers.reshape(len(self.edges), len(pairs)).astype(np.int32)  # [E, K] among `keys`

    def expected(self, p: Doubles) -> Doubles:
        """The expected count of each unit over all segmentations."""
        steps = p[self.numbers]  # [E, K]
        before, after = self._sums(steps, forward=True), self._sums(steps, forward=False)
        shares = np.stack([
            before[i, j] * step * after[i + a, j + b] for (i, j, a, b), step in zip(self.edges, steps, strict=True)
        ]) / before[self.S, self.T]  # fmt: skip
        return np.asarray(np.bincount(self.numbers.ravel(), weights=shares.ravel(), minlength=len(self.keys)))

    def _sums(self, steps: Doubles, *, forward: bool) -> Doubles:
        """Σ of the probabilities of all paths from (0, 0) to (i, j), or from there to (S, T) [S+1, T+1, K]."""
        sums = np.zeros((self.S + 1, self.T + 1, steps.shape[1]))
        sums[(0, 0) if forward else (self.S, self.T)] = 1.0
        for (i, j, a, b), step in list(zip(self.edges, steps, strict=True))[:: 1 if forward else -1]:
            if forward:
                sums[i + a, j + b] += sums[i, j] * step
            else:
                sums[i, j] += sums[i + a, j + b] * step
        return sums

    def best(self, p: Doubles) -> list[list[int]]:
        """The most probable segmentation of each pair, as places in `keys`."""
        steps = p[self.numbers]
        best = np.zeros((self.S + 1, self.T + 1, steps.shape[1]))
        best[0, 0] = 1.0
        backpointers = np.zeros(best.shape, dtype=np.int32)  # the edge that leads here
        for number, ((i, j, a, b), step) in enumerate(zip(self.edges, steps, strict=True)):
            value = best[i, j] * step
            better = value > best[i + a, j + b]
            best[i + a, j + b][better] = value[better]
            backpointers[i + a, j + b][better] = number
        return [self._backtrack(backpointers[:, :, column], column) for column in range(steps.shape[1])]

    def _backtrack(self, backpointers: NDArray[np.int32], column: int) -> list[int]:
        i, j, units = self.S, self.T, []
        while i > 0:
            number = int(backpointers[i, j])
            units.append(int(self.numbers[number, column]))
            _, _, a, b = self.edges[number]
            i, j = i - a, j - b
        return units[::-1]


def align(pairs: list[IdPair], *, say: Callable[[str], None] = lambda _: None) -> Aligned:
    """Units and segmentations of the pairs that have one: neither is empty, the target at most twice as long.

    Of more pairs than fit into memory (MOST edges), the first.
    """
    tokens = [sorted({token for pair in pairs for token in pair[side]}) for side in (0, 1)]
    sizes = len(tokens[0]) + 1, len(tokens[1]) + 1
    if (sizes[0] * sizes[1]) ** 2 >= 2**63:
        raise UserError(
            f"joint n-grams: {sizes[0] - 1:,} and {sizes[1] - 1:,} different tokens are too many; they are for letters "
            "and sounds"
        )
    groups = _group_by_lengths(pairs, [{token: place for place, token in enumerate(side)} for side in tokens])
    lattices = [Lattice(group, sizes) for group in groups]
    keys = np.unique(np.concatenate([np.zeros(0, np.int64), *(lattice.keys for lattice in lattices)]))
    places = [np.searchsorted(keys, lattice.keys) for lattice in lattices]
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
    """The edges on a path from (0, 0) to (S, T); a target is at most twice as long as its source."""
    return [
        (i, j, read, written)
        for i in range(S)
        for j in range(min(T, 2 * i) + 1)
        for read, written in SHAPES
        if i + read <= S and 0 <= T - j - written <= 2 * (S - i - read)
    ]


def _group_by_lengths(pairs: list[IdPair], numbers: list[dict[int, int]]) -> list[list[IdPair]]:
    """Groups of pairs with their tokens numbered, at most CHUNK edges in each and MOST in all."""
    groups: dict[tuple[int, int], list[IdPair]] = defaultdict(list)
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
    """The units that occur in a row, renumbered, with the tokens they consist of."""
    used = sorted({unit for row in rows for unit in row})
    number = {unit: place for place, unit in enumerate(used)}
    left, columns = keys[np.array(used, dtype=np.int64)], []
    for side in (1, 1, 0, 0):  # the last digit first
        known = np.array([NOTHING, *tokens[side]], dtype=np.int64)
        columns.append(known[left % len(known)])
        left = left // len(known)
    return Aligned(np.stack(columns[::-1], axis=1), [[number[unit] for unit in row] for row in rows])


ORDER = 8
OFTEN = 6  # n-grams of this length or longer are kept only if they were seen twice

Say = Callable[[str], None]


def learn_joint(pairs: list[IdPair], say: Say) -> JointNgrams:
    """Segment pairs into units and count these; `say` gets a line on pairs that are left out."""
    say(f"joint n-grams: all ways to cut {len(pairs):,} pairs into pieces")
    aligned = align([pair for pair in pairs if max(map(len, pair)) <= LONGEST], say=say)
    if left := len(pairs) - len(aligned.rows):
        say(
            f"joint n-grams: {left:,} of {len(pairs):,} pairs are left out: a side has more than {LONGEST} tokens, "
            "the target more than two for each of the source, or there are too many pairs"
        )
    if not aligned.rows:
        raise UserError(
            f"joint n-grams: none of {len(pairs):,} training pairs can be aligned; set decoding.joint to 0 "
            "(decoding.joint 0)"
        )
    ngrams = count_ngrams(aligned)
    say(f"joint n-grams: {len(ngrams.units):,} units, {len(ngrams.keys):,} n-grams")
    return ngrams


@dataclass(frozen=True)
class Level:
    """The different n-grams of one length n. Their parts are numbers of n-grams one shorter."""

    history: Ints  # [M] h
    suffix: Ints  # [M] the n-gram without its first unit
    last: Ints  # [M] the unit u
    first: NDArray[np.bool_]  # [M] stands at the beginning: nothing can be to its left
    seen: Ints  # [M] how often


@dataclass(frozen=True)
class Smoothed:
    """The smoothed probabilities of one order."""

    kept: NDArray[np.bool_]  # [M]
    p: Doubles  # [M] p(u | h)
    left: Doubles  # [histories] b(h)


def count_ngrams(aligned: Aligned, order: int = ORDER) -> JointNgrams:
    """p(u | h) = max(c - D, 0) / c(h) + b(h) p(u | h without its first unit), as an automaton.

    c is the count of (h, u) if it has `order` units; of a shorter one it is the number of different units to its left.
    D depends on c (Chen and Goodman 1998); b(h) is the probability that the discounts leave. Below the unigrams, all
    units are equally probable.
    """
    size = len(aligned.units) + FIRST
    levels = _levels(aligned.rows, size, order)
    outcomes = size - 1  # units, an unknown one, END
    smoothed = _smoothed(levels, 1.0 / outcomes)
    nearest, backoff, shorter = _states(levels, smoothed)
    keys, log_probs, after = [], [], []
    for n, (level, smooth) in enumerate(zip(levels, smoothed, strict=True), start=1):
        keys.append(nearest[n - 1][level.history[smooth.kept]] * size + level.last[smooth.kept])
        log_probs.append(np.log(smooth.p[smooth.kept]))
        after.append(nearest[n][smooth.kept])
    sorted_by = np.argsort(np.concatenate(keys))
    return JointNgrams(
        units=aligned.units,
        keys=np.concatenate(keys)[sorted_by],
        log_probs=np.concatenate(log_probs)[sorted_by].astype(np.float32),
        after=np.concatenate(after)[sorted_by],
        backoff=backoff.astype(np.float32),
        shorter=shorter,
        start=int(nearest[1][levels[0].last == START][0]),
        unknown=float(np.log(smoothed[0].left[0] / outcomes)),
    )


def _levels(rows: list[list[int]], size: int, order: int) -> list[Level]:
    """The n-grams of START, units, END, for n = 1 to `order`."""
    text = np.concatenate([np.array([START, *(unit + FIRST for unit in row), END]) for row in rows])
    place = np.concatenate([np.arange(len(row) + 2) for row in rows])  # in its sequence
    of, levels = np.zeros(len(text), np.int64), []  # the n-gram, one shorter, that ends at each position
    for n in range(1, order + 1):
        ends = np.flatnonzero(place >= n - 1)
        history = of[ends - 1] if n > 1 else of[ends]
        _, where, number, seen = np.unique(
            history * size + text[ends], return_index=True, return_inverse=True, return_counts=True
        )
        at = ends[where]
        levels.append(Level(history[where], of[at], text[at], place[at] == n - 1, seen))
        of = np.full(len(text), -1, np.int64)  # none near the beginning of a sequence
        of[ends] = number
    return levels


def _smoothed(levels: list[Level], p0: float) -> list[Smoothed]:
    p, smoothed = np.full(1, p0), []
    for n, level in enumerate(levels, start=1):
        possible = level.last != START  # which is only a history
        kept = possible & ((n < OFTEN) | (level.seen > 1))
        counts = level.seen.astype(np.float64)
        if n < len(levels):
            to_the_left = np.bincount(levels[n].suffix, minlength=len(counts))
            counts[~level.first] = to_the_left[~level.first]
        whole = np.bincount(level.history, weights=counts * possible, minlength=len(p))
        share = _discounted(counts, possible) / whole[level.history].clip(1.0)
        left = 1.0 - np.bincount(level.history, weights=share * kept, minlength=len(p)).astype(np.float64)
        p = share + left[level.history] * p[level.suffix]
        smoothed.append(Smoothed(kept, p, left))
    return smoothed


def _discounted(counts: Doubles, possible: NDArray[np.bool_]) -> Doubles:
    """max(c - D, 0), with a D each for counts of one, two, and more."""
    one, two, three, four = (1.0 + np.count_nonzero(counts[possible] == c) for c in (1, 2, 3, 4))
    Y = one / (one + 2 * two)
    D = np.array([1 - 2 * Y * two / one, 2 - 3 * Y * three / two, 3 - 4 * Y * four / three])
    D = D.clip(0.1, np.array([0.9, 1.9, 2.9]))  # few n-grams give extreme values
    return np.asarray((counts - D[counts.clip(1, 3).astype(np.int64) - 1]).clip(0.0))


def _states(levels: list[Level], smoothed: list[Smoothed]) -> tuple[list[Ints], Doubles, Ints]:
    """A state for each history after which an n-gram is kept, the shortest first.

    Returned are, for the n-grams of each length from 0, the state of their longest suffix that has one; and for each
    state log b(h) and the state of the next shorter history.
    """
    nearest, count = [np.zeros(1, np.int64)], 1
    backoff, shorter = [np.log(smoothed[0].left)], [np.zeros(1, np.int64)]
    for n, level in enumerate(levels, start=1):
        fewer = nearest[-1][level.suffix]
        has_state = np.zeros(len(fewer), dtype=bool)
        if n < len(levels):
            has_state[levels[n].history[smoothed[n].kept]] = True
            backoff.append(np.log(smoothed[n].left[has_state]))
            shorter.append(fewer[has_state])
        here = fewer.copy()
        here[has_state] = np.arange(count, count + has_state.sum())
        count += int(has_state.sum())
        nearest.append(here)
    return nearest, np.concatenate(backoff), np.concatenate(shorter)
