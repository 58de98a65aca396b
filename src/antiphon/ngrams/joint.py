"""Joint n-grams: a source and its target as one sequence of small pieces of both (Bisani and Ney 2008).

"PHONE" and "F OW N" are PH:F, O:OW, N:N and E: (a letter that is not heard). How probable such a unit is depends on the
units before it. This is for texts that correspond from left to right: spelling and sound, two scripts, two spellings.
"""
# S source tokens, T target tokens, U units, N arcs

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from antiphon.data.tokenizers import EOS
from antiphon.errors import ModelFolderError
from antiphon.files import write_bytes
from antiphon.search.hypothesis import Hypothesis
from antiphon.search.rerank import by_joint_score

__all__ = [
    "END", "FIRST", "JOINT", "LONGEST", "NOTHING", "SHAPES", "START", "IdPair", "Ints", "JointNgrams", "load_joint",
]  # fmt: skip

IdPair = tuple[list[int], list[int]]

JOINT = "joint.safetensors"
FORMAT = 1
SHAPES = ((1, 0), (1, 1), (1, 2), (2, 1))  # tokens that a unit can have of the source and of the target
NOTHING = -1  # in a unit that is shorter
START, END, UNKNOWN, FIRST = 0, 1, 2, 3  # before all units, after them, one never seen, and the first of them
LONGEST = 40  # tokens of a source or target; longer ones are hardly words, and are neither counted nor scored
KEPT = 8  # the most probable histories at one place; others are pruned

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Ways = dict[int, float]  # state → log probability of what led there
Arcs = dict[int, tuple[float, int]]  # state and unit → log probability and the state after


class Tables(NamedTuple):
    """Views of the automaton, whose items are Python's own values: those of an array are slow in a loop."""

    keys: memoryview[int]
    log_probs: memoryview[float]
    after: memoryview[int]
    backoff: memoryview[float]
    shorter: memoryview[int]

    def place(self, key: int) -> int | None:
        """The place of a key; None if there is none."""
        place = bisect_left(self.keys, key)
        return place if place < len(self.keys) and self.keys[place] == key else None


@dataclass(frozen=True)
class JointNgrams:
    """An automaton. Its states are histories; state 0 is the empty one.

    An arc leads from a state over a unit to the longest history that is a state. Where a state has no arc for a unit,
    its back-off weight is added and the shorter history is used.
    """

    units: Ints  # [U, 4]: source, source, target, target; NOTHING where there is none
    keys: Ints  # [N] ascending: state x (U + FIRST) + unit
    log_probs: Floats  # [N]
    after: Ints  # [N] the state that an arc leads to
    backoff: Floats  # [states]
    shorter: Ints  # [states]
    start: int  # the state before the first unit
    unknown: float  # log probability of a unit that was never seen, after the empty history

    def log_prob(self, source: list[int], target: list[int]) -> float | None:
        """log p(source, target) = log Σ p(units), over all segmentations into known units.

        Without any, over segmentations with unknown units, too. None: the target is more than twice as long as the
        source, or one of them has more than LONGEST tokens.
        """
        return self.log_probs_of(source, [target])[0]

    def log_probs_of(self, source: list[int], targets: list[list[int]]) -> list[float | None]:
        """log p(source, target) of several targets, which have many steps in common."""
        known: Arcs = {}
        return [self._log_prob(source, target, known) for target in targets]

    def _log_prob(self, source: list[int], target: list[int], known: Arcs) -> float | None:
        if max(len(source), len(target)) > LONGEST or len(target) > 2 * len(source):
            return None
        total = self._sum(source, target, known, unknown=False)
        return self._sum(source, target, known, unknown=True) if total is None else total

    def _sum(self, source: list[int], target: list[int], known: Arcs, *, unknown: bool) -> float | None:
        """log Σ p(units) over all segmentations, with unknown units or without."""
        places: dict[tuple[int, int], Ways] = {(0, 0): {self.start: 0.0}}
        for i in range(len(source)):
            for j in range(len(target) + 1):
                if (i, j) not in places:
                    continue
                ways = _prune(places.pop((i, j)))
                for unit, place in self._next_units(source, target, i, j):
                    if unit == UNKNOWN and not unknown:
                        continue
                    reached = places.setdefault(place, {})
                    for state, value in ways.items():
                        step, after = self._arc(state, unit, known)
                        _add(reached, after, value + step)
        total: Ways = {}
        for state, value in places.get((len(source), len(target)), {}).items():
            _add(total, 0, value + self._arc(state, END, known)[0])
        return total.get(0)

    def _next_units(
        self, source: list[int], target: list[int], i: int, j: int
    ) -> Iterator[tuple[int, tuple[int, int]]]:
        """The units that can follow, and where each leads; none after which the rest of the source is too short."""
        S, T = len(source), len(target)
        for read, written in SHAPES:
            here = i + read, j + written
            if here[0] <= S and here[1] <= T and T - here[1] <= 2 * (S - here[0]):
                unit = (tuple(source[i : here[0]]), tuple(target[j : here[1]]))
                yield self._numbers.get(unit, UNKNOWN), here

    def _arc(self, state: int, unit: int, known: Arcs) -> tuple[float, int]:
        """log p(unit | history), and the history after it."""
        size = len(self.units) + FIRST
        key = state * size + unit
        if key not in known:
            tables, log_prob = self._tables, 0.0
            while (place := tables.place(state * size + unit)) is None and state:
                log_prob += tables.backoff[state]
                state = tables.shorter[state]
            arc = (self.unknown, 0) if place is None else (tables.log_probs[place], tables.after[place])
            known[key] = log_prob + arc[0], arc[1]
        return known[key]

    @cached_property
    def _numbers(self) -> dict[tuple[tuple[int, ...], tuple[int, ...]], int]:
        halves = [tuple(token for token in half if token != NOTHING) for half in self.units.reshape(-1, 2).tolist()]
        return {unit: number for number, unit in enumerate(zip(halves[::2], halves[1::2], strict=True), start=FIRST)}

    @cached_property
    def _tables(self) -> Tables:
        log_probs, backoff = (cast("memoryview[float]", column.data) for column in (self.log_probs, self.backoff))
        return Tables(self.keys.data, log_probs, self.after.data, backoff, self.shorter.data)

    def rerank(
        self, source: list[int], hypotheses: list[Hypothesis], *, weight: float, length_penalty: float
    ) -> list[Hypothesis]:
        """Order hypotheses by log p(y | x) + weight · log p(x, y)."""
        targets = [[token for token in hypothesis.tokens if token != EOS] for hypothesis in hypotheses]
        return by_joint_score(hypotheses, self.log_probs_of(source, targets), weight, length_penalty)

    def save(self, folder: Path) -> None:
        """Write the automaton into a model folder."""
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in ("keys", "log_probs", "backoff")}
        arrays |= {name: getattr(self, name).astype(np.int32) for name in ("units", "after", "shorter")}
        scalars = {"format": np.array([FORMAT]), "start": np.array([self.start]), "unknown": np.array([self.unknown])}
        write_bytes(folder / JOINT, save(arrays | scalars))


def load_joint(folder: Path, *, source_tokens: int, target_tokens: int) -> JointNgrams:
    """Read the automaton of a model folder."""
    path, again = folder / JOINT, f"make it again: antiphon joint {folder}"
    try:
        arrays = load_file(path)
        if (version := int(arrays["format"][0])) != FORMAT:
            raise ModelFolderError(f"{path}: format {version}, this version reads {FORMAT}; {again}")
        tables: dict[str, Any] = {name: arrays[name] for name in ("log_probs", "backoff")}
        tables |= {name: arrays[name].astype(np.int64) for name in ("units", "keys", "after", "shorter")}
        joint = JointNgrams(**tables, start=int(arrays["start"][0]), unknown=float(arrays["unknown"][0]))
    except (SafetensorError, KeyError, OSError) as error:
        raise ModelFolderError(f"{path}: cannot be read ({error}); {again}") from error
    highest = joint.units.max(axis=0, initial=NOTHING)
    if max(highest[:2]) >= source_tokens or max(highest[2:]) >= target_tokens:
        raise ModelFolderError(f"{path}: made for another vocabulary; {again}")
    return joint


def _prune(ways: Ways) -> Ways:
    if len(ways) <= KEPT:
        return ways
    return dict(sorted(ways.items(), key=lambda way: (-way[1], way[0]))[:KEPT])


def _add(ways: Ways, state: int, value: float) -> None:
    """log(exp a + exp b)"""
    before = ways.get(state)
    if before is None:
        ways[state] = value
    else:
        high, low = (before, value) if before > value else (value, before)
        ways[state] = high + math.log1p(math.exp(low - high))
