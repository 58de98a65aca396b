"""Joint n-grams from the training pairs: cut into units, counted, smoothed as Kneser and Ney have it."""
# an n-gram (h, u) is a history h of n - 1 units and the unit u after it; M different n-grams

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import UserError
from antiphon.folder import SOURCE_TOKENIZER, TARGET_TOKENIZER, is_whole, load_model, read_folder_config
from antiphon.sources.joint import END, FIRST, LONGEST, START, Ints, JointNgrams
from antiphon.sources.ragged import Ragged
from antiphon.sources.rows import Corpus
from antiphon.sources.tokens import load_tokenizer
from antiphon.training.aligning import Aligned, align
from antiphon.training.counting import MOST, Pair, counted_pairs

__all__ = ["count_ngrams", "joint_of", "learn_joint", "make_joint"]

ORDER = 8
OFTEN = 6  # n-grams of so many units and more are kept only if they were seen twice

Doubles = NDArray[np.float64]
Say = Callable[[str], None]


def make_joint(run: str | Path, *, say: Say = lambda _: None) -> JointNgrams:
    """Counts them in the run's training pairs and saves them in its folder."""
    folder = Path(run)
    if not is_whole(folder):
        load_model(folder)  # which says what is missing; n-grams that cannot be read are no hindrance here
    data = read_folder_config(folder).data
    if data.source is None:
        raise UserError(f"{folder}: a language model has no source that its text could go on together with")
    if data.text is None:
        raise UserError(f"{folder}: joint n-grams are of one text and another, and this run reads no single text")
    source, target = (load_tokenizer(folder / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    found = learn_joint(counted_pairs(data, source, target, say), say)
    found.save(folder)
    return found


def joint_of(train: Corpus, say: Say) -> JointNgrams:
    """Those of encoded pairs whose source is one text."""
    source, target = train.source, train.target
    assert isinstance(source, Ragged)
    if len(source) > MOST:
        say(f"joint n-grams: there are more pairs; the first {MOST:,} are counted")
    return learn_joint([(source[row].tolist(), target[row].tolist()) for row in range(min(len(source), MOST))], say)


def learn_joint(pairs: list[Pair], say: Say) -> JointNgrams:
    """Cuts pairs into units and counts these; what is left out is said."""
    say(f"joint n-grams: all ways to cut {len(pairs):,} pairs into pieces")
    aligned = align([pair for pair in pairs if max(map(len, pair)) <= LONGEST], say=say)
    if left := len(pairs) - len(aligned.rows):
        say(
            f"joint n-grams: {left:,} of {len(pairs):,} pairs are left out: a side has more than {LONGEST} tokens, "
            "the target more than two for each of the source, or there are too many pairs"
        )
    if not aligned.rows:
        raise UserError(
            f"joint n-grams: none of {len(pairs):,} training pairs can be cut into units; do without them "
            "(decoding.joint 0)"
        )
    found = count_ngrams(aligned)
    say(f"joint n-grams: {len(found.units):,} units, {len(found.keys):,} n-grams")
    return found


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
    """What a level says."""

    kept: NDArray[np.bool_]  # [M]
    p: Doubles  # [M] p(u | h)
    left: Doubles  # [histories] b(h)


def count_ngrams(aligned: Aligned, order: int = ORDER) -> JointNgrams:
    """p(u | h) = max(c - D, 0) / c(h) + b(h) p(u | h without its first unit), as an automaton.

    c is how often (h, u) was seen if it has `order` units, and of a shorter one how many different units are to its
    left; D depends on c (Chen and Goodman 1998); b(h) is what the others leave. Below all, each unit is as probable.
    """
    size = len(aligned.units) + FIRST
    levels = _levels(aligned.rows, size, order)
    one_of = size - 1  # all that can be said: units, one never seen, END
    smoothed = _smoothed(levels, 1.0 / one_of)
    nearest, backoff, shorter = _states(levels, smoothed)
    keys, log_probs, after = [], [], []
    for n, (level, said) in enumerate(zip(levels, smoothed, strict=True), start=1):
        keys.append(nearest[n - 1][level.history[said.kept]] * size + level.last[said.kept])
        log_probs.append(np.log(said.p[said.kept]))
        after.append(nearest[n][said.kept])
    sorted_by = np.argsort(np.concatenate(keys))
    return JointNgrams(
        units=aligned.units,
        keys=np.concatenate(keys)[sorted_by],
        log_probs=np.concatenate(log_probs)[sorted_by].astype(np.float32),
        after=np.concatenate(after)[sorted_by],
        backoff=backoff.astype(np.float32),
        shorter=shorter,
        start=int(nearest[1][levels[0].last == START][0]),
        unknown=float(np.log(smoothed[0].left[0] / one_of)),
    )


def _levels(rows: list[list[int]], size: int, order: int) -> list[Level]:
    """The n-grams of START, units, END, for n = 1 to `order`."""
    text = np.concatenate([np.array([START, *(unit + FIRST for unit in row), END]) for row in rows])
    place = np.concatenate([np.arange(len(row) + 2) for row in rows])  # in its sequence
    of, found = np.zeros(len(text), np.int64), []  # which n-gram, one shorter, ends at each position
    for n in range(1, order + 1):
        ends = np.flatnonzero(place >= n - 1)
        history = of[ends - 1] if n > 1 else of[ends]
        _, where, number, seen = np.unique(
            history * size + text[ends], return_index=True, return_inverse=True, return_counts=True
        )
        at = ends[where]
        found.append(Level(history[where], of[at], text[at], place[at] == n - 1, seen))
        of = np.full(len(text), -1, np.int64)  # where the sequence begins too late there is none
        of[ends] = number
    return found


def _smoothed(levels: list[Level], p0: float) -> list[Smoothed]:
    p, found = np.full(1, p0), []
    for n, level in enumerate(levels, start=1):
        told = level.last != START  # which is where all begins, and is never said
        kept = told & ((n < OFTEN) | (level.seen > 1))
        counts = level.seen.astype(np.float64)
        if n < len(levels):
            to_the_left = np.bincount(levels[n].suffix, minlength=len(counts))
            counts[~level.first] = to_the_left[~level.first]
        whole = np.bincount(level.history, weights=counts * told, minlength=len(p))
        share = _discounted(counts, told) / whole[level.history].clip(1.0)
        left = 1.0 - np.bincount(level.history, weights=share * kept, minlength=len(p)).astype(np.float64)
        p = share + left[level.history] * p[level.suffix]
        found.append(Smoothed(kept, p, left))
    return found


def _discounted(counts: Doubles, told: NDArray[np.bool_]) -> Doubles:
    """max(c - D, 0), with a D each for counts of one, two, and more."""
    one, two, three, four = (1.0 + np.count_nonzero(counts[told] == c) for c in (1, 2, 3, 4))
    Y = one / (one + 2 * two)
    D = np.array([1 - 2 * Y * two / one, 2 - 3 * Y * three / two, 3 - 4 * Y * four / three])
    D = D.clip(0.1, np.array([0.9, 1.9, 2.9]))  # few n-grams make strange numbers
    return np.asarray((counts - D[counts.clip(1, 3).astype(np.int64) - 1]).clip(0.0))


def _states(levels: list[Level], smoothed: list[Smoothed]) -> tuple[list[Ints], Doubles, Ints]:
    """A state for each history after which something is kept, the shortest first.

    Of the n-grams of each length, from 0, the state of the longest part at their end that has one; of each state b(h)
    as a logarithm, and the state of the next shorter history.
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
