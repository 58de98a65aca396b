"""Flags: what to beware of in an answer, also by comparison with the training targets."""
# T target steps, S source steps, N targets

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from antiphon.data.corpus import Ragged
from antiphon.data.source import Ints
from antiphon.data.tokenizers import Tokenizer
from antiphon.files import to_json, write_text
from antiphon.inference.conversation import TurnFormat
from antiphon.search.hypothesis import Hypothesis
from antiphon.search.phrases import RequiredPhrases, contains

__all__ = [
    "FLAGS", "FlagLimits", "empty_flags", "ending_flags", "forbidden_flags", "learn_limits", "missing_flags",
    "repetition_flags", "unattended_flags", "unknown_flags",
]  # fmt: skip

Phrases = tuple[tuple[int, ...], ...]
FLAGS = "flags.json"  # the limits of a model, in its folder
LOOP_TOKENS, LOOP_TIMES, LOOP_PERIOD = 8, 3, 6  # tokens in all, repetitions, and the longest phrase to look for
RARE, FEWEST = 1e-4, 3  # a share and a number of training targets: what fewer do is not usual
ROWS = 100_000  # targets that are compared at a time
SHOWN = 80  # characters of an unknown symbol: a word may have a million
LITTLE, MANY = 0.1, 0.5  # attention to a source token over all steps; share of such tokens


@dataclass(frozen=True)
class FlagLimits:
    """The most that is usual and gets no flag; `repetition` has tokens by the length of the repeated phrase."""

    repetition: tuple[int, ...] = tuple(
        max(LOOP_TOKENS, LOOP_TIMES * period) - 1 for period in range(1, LOOP_PERIOD + 1)
    )
    turns: TurnFormat | None = None  # of a source, if the model was trained with a dialogue

    def save(self, folder: Path) -> None:
        """Write flags.json into a model folder."""
        write_text(folder / FLAGS, to_json(asdict(self)))


def learn_limits(targets: Ragged, turns: TurnFormat | None = None) -> FlagLimits:
    """The limits that the training targets keep, but for the rarest; never below the defaults; and those of turns."""
    longest = np.concatenate([np.zeros((1, LOOP_PERIOD), np.int64), *_longest_by_rows(targets)])  # [1 + N, periods]
    rank = max(FEWEST, round(RARE * len(targets)))
    usual = np.sort(longest, axis=0)[-rank] if len(targets) >= rank else longest[0]
    pairs = zip(usual.tolist(), FlagLimits().repetition, strict=True)
    return FlagLimits(tuple(max(pair) for pair in pairs), turns)


def _longest_by_rows(targets: Ragged) -> list[Ints]:
    """For some rows at a time the longest repetition of each period [rows, periods]."""
    found = []
    for first in range(0, len(targets), ROWS):
        offsets = targets.offsets[first : first + ROWS + 1]
        ids = targets.ids[offsets[0] : offsets[-1]]
        columns = [longest_repetitions(ids, offsets - offsets[0], period) for period in range(1, LOOP_PERIOD + 1)]
        found.append(np.stack(columns, axis=1))
    return found


def longest_repetitions(ids: Ints, offsets: Ints, period: int) -> Ints:
    """The tokens of the longest stretch of each row whose tokens equal those `period` before; 0 if there is none."""
    equal = np.zeros(len(ids) + 2, np.int8)  # with a break before and after
    equal[period + 1 : -1] = ids[period:] == ids[:-period]
    for position in range(period):  # the first tokens of a row have nothing before them
        starts = offsets[:-1] + position
        equal[1 + starts[starts < offsets[1:]]] = 0
    steps = np.diff(equal)
    begins, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    longest = np.zeros(len(offsets) - 1, np.int64)
    np.maximum.at(longest, np.searchsorted(offsets, begins, side="right") - 1, ends - begins + period)
    return longest


def unknown_flags(side: str, unknown: list[str]) -> list[str]:
    """A flag for symbols that are not in the vocabulary."""
    if not unknown:
        return []
    frequent = Counter(unknown).most_common(10)
    counts = ", ".join(f"{symbol[:SHOWN]!r}{'…' * (len(symbol) > SHOWN)} x {count}" for symbol, count in frequent)
    return [f"unknown symbols in the {side}: {counts}"]


def ending_flags(best: Hypothesis, max_length: int) -> list[str]:
    """A flag if the answer has no </s>: it was cut, or constraints and model left no token."""
    length = len(best.tokens)
    if best.finished:
        return []
    if length >= max_length:
        return [f"maximum length: stopped after {length} tokens without an end"]
    return [f"dead end: stopped after {length} tokens without an end, because no token was possible"]


def empty_flags(text: str) -> list[str]:
    """A flag if nothing was written that can be seen."""
    return [] if text.strip() else ["empty answer: nothing was written"]


def repetition_flags(tokens: tuple[int, ...], limits: FlagLimits) -> list[str]:
    """A flag if a phrase is repeated without a break for more tokens than the limits allow."""
    for period, limit in enumerate(limits.repetition, start=1):
        if len(tokens) > limit and longest_repetition(tokens, period) > limit:
            return [f"repetition: {'a token' if period == 1 else f'{period} tokens'} again and again"]
    return []


def longest_repetition(tokens: tuple[int, ...], period: int) -> int:
    """`longest_repetitions` of one row, whose tokens are too few for numpy."""
    longest = run = 0
    for token, before in zip(tokens[period:], tokens, strict=False):
        run = run + 1 if token == before else 0
        longest = max(longest, run)
    return longest + period if longest else 0


def unattended_flags(weights: np.ndarray, source: list[str]) -> list[str]:
    """A flag if half of the source [S] got hardly any attention in weights [T, S]; its </s> does not count."""
    totals = weights[:, : len(source) - 1].sum(axis=0)
    lost = [symbol for symbol, total in zip(source, totals, strict=False) if total < LITTLE]
    if not len(weights) or len(totals) < 2 or len(lost) < MANY * len(totals):
        return []
    named = " ".join(lost[:10]) + (" …" if len(lost) > 10 else "")
    return [f"source not attended: {len(lost)} of {len(totals)} tokens were hardly attended to ({named})"]


def missing_flags(best: Hypothesis, require: Phrases, target: Tokenizer) -> list[str]:
    """A flag if required phrases are not in the answer."""
    missing = RequiredPhrases(require).missing(best.tokens)
    return [f"required: missing: {', '.join(repr(target.decode(phrase)) for phrase in missing)}"] if missing else []


def forbidden_flags(best: Hypothesis, forbid: Phrases, target: Tokenizer) -> list[str]:
    """A flag if forbidden phrases are in the answer: in a prefix, or split into other tokens."""
    text = f" {target.decode(best.tokens)} "
    names = [(phrase, target.decode(phrase)) for phrase in forbid]
    found = [name for phrase, name in names if contains(best.tokens, phrase) or f" {name} " in text]
    return [f"forbidden: in the answer: {', '.join(map(repr, found))}"] if found else []
