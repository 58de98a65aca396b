"""Which search the options ask for."""

from __future__ import annotations

from typing import TypeVar

from antiphon.decoding.beam import beam_search
from antiphon.decoding.constraints import Rule
from antiphon.decoding.greedy import greedy_search
from antiphon.decoding.hypothesis import Check, Hypothesis, Step
from antiphon.decoding.options import SearchOptions
from antiphon.decoding.room import ShrinkingRoom
from antiphon.decoding.sample import Draw, sample_search
from antiphon.sequence import State

__all__ = ["search"]

S = TypeVar("S", bound=State)


def search(
    step: Step[S],
    state: S,
    options: SearchOptions,
    *,
    start: list[int],
    end: int,
    prefixes: list[list[int]],
    rules: tuple[Rule, ...],
    draws: list[Draw],
    check: Check | None,
) -> list[list[Hypothesis]]:
    """Answers per sentence, best first: of a beam all, else one. `draws` are for sampling, one for each sentence."""
    sentences, length, penalty = len(start), options.max_length, options.length_penalty
    if options.sampling is not None:
        drawn = sample_search(
            step, state, sentences=sentences, start=start, end=end, max_length=length, length_penalty=penalty,
            sampling=options.sampling, draws=draws, prefixes=prefixes, rules=rules, check=check,
        )  # fmt: skip
        return [[hypothesis] for hypothesis in drawn]
    if options.beam == 1:
        best = greedy_search(
            step, state, sentences=sentences, start=start, end=end, max_length=length, length_penalty=penalty,
            prefixes=prefixes, rules=rules, check=check,
        )  # fmt: skip
        return [[hypothesis] for hypothesis in best]
    return beam_search(
        step, state, sentences=sentences, start=start, end=end, room=ShrinkingRoom(options.beam), max_length=length,
        length_penalty=penalty, prefixes=prefixes, rules=rules, check=check,
    )  # fmt: skip
