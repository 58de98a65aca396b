"""Joint n-grams: a source and its target as one sequence of small pieces of both (Bisani and Ney 2008).

"PHONE" and "F OW N" are PH:F, O:OW, N:N and E: (a letter that is not heard). How probable such a unit is depends on the
units before it. This is for texts that correspond from left to right: spelling and sound, two scripts, two spellings.
"""
# S source tokens, T target tokens, U units, N arcs

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from antiphon.data.tokenizers import EOS
from antiphon.errors import ModelFolderError
from antiphon.files import write_bytes
from antiphon.search.hypothesis import Hypothesis
from antiphon.search.rerank import by_second_model

__all__ = [
    "END",
    "FIRST",
    "JOINT",
    "LONGEST",
    "NOTHING",
    "SHAPES",
    "START",
    "UNKNOWN",
    "IdPair",
    "Ints",
    "JointNgrams",
    "load_joint",
]

# Pairs of ids.

IdPair = tuple[list[int], list[int]]


JOINT = "joint.safetensors"
FORMAT = 1
SHAPES = ((1, 0), (1, 1), (1, 2), (2, 1))  # tokens that a unit can have of the source and of the target
NOTHING = -1  # in a unit that is shorter
START, END, UNKNOWN, FIRST = 0, 1, 2, 3  # before all units, after them, one never seen, and the first of them
LONGEST = 40  # tokens of a side; what is longer is hardly a word, and is neither counted nor asked about
KEPT = 8  # histories that are followed at one place; the least probable of more are given up

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Ways = dict[int, float]  # state → log probability of what led there
Arcs = dict[int, tuple[float, int]]  # state and unit → log probability and the state after


class Tables(NamedTuple):
    """The automaton as a loop in Python asks for it: Python's own values take a third of the time."""

    places: dict[int, int]  # of keys
    log_probs: list[float]
    after: list[int]
    backoff: list[float]
    shorter: list[int]


@dataclass(frozen=True)
class JointNgrams:
    """An automaton. Its states are histories; state 0 is the empty one.

    An arc leads from a state over a unit to the longest history that is a state. Where a state has no arc for a unit,
    its back-off weight is paid and the shorter history is asked.
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
        """log p(source, target) = log Σ p(units), over all ways to cut both into known units.

        Where there is none, over all ways with unknown units, too; None: no units are so long, or a side has more than
        LONGEST tokens.
        """
        return self.log_probs_of(source, [target])[0]

    def log_probs_of(self, source: list[int], targets: list[list[int]]) -> list[float | None]:
        """That of several targets of one source, which have many steps in common."""
        known: Arcs = {}
        return [self._known_or_strange(source, target, known) for target in targets]

    def _known_or_strange(self, source: list[int], target: list[int], known: Arcs) -> float | None:
        if max(len(source), len(target)) > LONGEST or len(target) > 2 * len(source):
            return None
        found = self._summed(source, target, known, strange=False)
        return self._summed(source, target, known, strange=True) if found is None else found

    def _summed(self, source: list[int], target: list[int], known: Arcs, *, strange: bool) -> float | None:
        places: dict[tuple[int, int], Ways] = {(0, 0): {self.start: 0.0}}
        for i in range(len(source)):
            for j in range(len(target) + 1):
                if (i, j) not in places:
                    continue
                ways = _best(places.pop((i, j)))
                for unit, place in self._next_units(source, target, i, j):
                    if unit == UNKNOWN and not strange:
                        continue
                    reached = places.setdefault(place, {})
                    for state, value in ways.items():
                        step, after = self._arc(state, unit, known)
                        _add(reached, after, value + step)
        whole: Ways = {}
        for state, value in places.get((len(source), len(target)), {}).items():
            _add(whole, 0, value + self._arc(state, END, known)[0])
        return whole.get(0)

    def _next_units(
        self, source: list[int], target: list[int], i: int, j: int
    ) -> Iterator[tuple[int, tuple[int, int]]]:
        """The units that can follow, and where each leads; not where the rest of the source is too short."""
        S, T = len(source), len(target)
        for read, written in SHAPES:
            here = i + read, j + written
            if here[0] <= S and here[1] <= T and T - here[1] <= 2 * (S - here[0]):
                cut = (tuple(source[i : here[0]]), tuple(target[j : here[1]]))
                yield self._numbers.get(cut, UNKNOWN), here

    def _arc(self, state: int, unit: int, known: Arcs) -> tuple[float, int]:
        """log p(unit | history), and the history after it."""
        size = len(self.units) + FIRST
        key = state * size + unit
        if key not in known:
            tables, paid = self._tables, 0.0
            while (place := tables.places.get(state * size + unit)) is None and state:
                paid += tables.backoff[state]
                state = tables.shorter[state]
            known[key] = (
                (paid + self.unknown, 0) if place is None else (paid + tables.log_probs[place], tables.after[place])
            )
        return known[key]

    @cached_property
    def _numbers(self) -> dict[tuple[tuple[int, ...], tuple[int, ...]], int]:
        cut = [[token for token in unit if token != NOTHING] for unit in self.units.reshape(-1, 2).tolist()]
        return {(tuple(cut[2 * u]), tuple(cut[2 * u + 1])): u + FIRST for u in range(len(self.units))}

    @cached_property
    def _tables(self) -> Tables:
        return Tables(
            {key: place for place, key in enumerate(self.keys.tolist())},
            *(column.tolist() for column in (self.log_probs, self.after, self.backoff, self.shorter)),
        )

    def rerank(
        self, source: list[int], hypotheses: list[Hypothesis], *, weight: float, length_penalty: float
    ) -> list[Hypothesis]:
        """Order hypotheses by log p(y | x) + weight · log p(x, y)."""
        targets = [[token for token in one.tokens if token != EOS] for one in hypotheses]
        return by_second_model(hypotheses, self.log_probs_of(source, targets), weight, length_penalty)

    def save(self, folder: Path) -> None:
        """Write them into a model folder."""
        values: dict[str, NDArray[Any]] = {
            "units": self.units.astype(np.int32),
            "keys": self.keys,
            "log_probs": self.log_probs,
            "after": self.after.astype(np.int32),
            "backoff": self.backoff,
            "shorter": self.shorter.astype(np.int32),
            "format": np.array([FORMAT]),
            "start": np.array([self.start]),
            "unknown": np.array([self.unknown]),
        }
        write_bytes(folder / JOINT, save(values))


def load_joint(folder: Path, *, source_tokens: int, target_tokens: int) -> JointNgrams:
    """Read them from a model folder."""
    path, again = folder / JOINT, f"make it again: antiphon joint {folder}"
    try:
        found = load_file(path)
        if (version := int(found["format"][0])) != FORMAT:
            raise ModelFolderError(f"{path}: format {version}, this version reads {FORMAT}; {again}")
        ints = {name: found[name].astype(np.int64) for name in ("units", "keys", "after", "shorter")}
        joint = JointNgrams(
            **ints,
            log_probs=found["log_probs"],
            backoff=found["backoff"],
            start=int(found["start"][0]),
            unknown=float(found["unknown"][0]),
        )
    except (SafetensorError, KeyError, OSError) as error:
        raise ModelFolderError(f"{path}: cannot be read ({error}); {again}") from error
    highest = joint.units.max(axis=0, initial=NOTHING)
    if max(highest[:2]) >= source_tokens or max(highest[2:]) >= target_tokens:
        raise ModelFolderError(f"{path}: made for another vocabulary; {again}")
    return joint


def _best(ways: Ways) -> Ways:
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
