"""Which search the options ask for."""

from __future__ import annotations

from typing import TypeVar

from antiphon.decoding.ask import Ask
from antiphon.decoding.beam import beam_search
from antiphon.decoding.choice import BEST
from antiphon.decoding.diverse import diverse_search
from antiphon.decoding.greedy import greedy_search
from antiphon.decoding.hypothesis import Hypothesis, Step
from antiphon.decoding.observer import Observer
from antiphon.decoding.options import SearchOptions
from antiphon.decoding.required import Banks, Phrases
from antiphon.decoding.room import KeptRoom, Room, ShrinkingRoom
from antiphon.decoding.sample import Draw, sample_search
from antiphon.sequence import State

__all__ = ["search"]

S = TypeVar("S", bound=State)


def search(
    step: Step[S],
    state: S,
    ask: Ask,
    options: SearchOptions,
    *,
    vocabulary: int,
    draws: list[Draw],
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """Answers per sentence, best first: of a beam all, else one. `draws` are for sampling, one for each sentence."""
    if options.sampling is not None:
        return [[one] for one in sample_search(step, state, ask, sampling=options.sampling, draws=draws)]
    if options.beam == 1 and observer is None and not options.require:
        return [[one] for one in greedy_search(step, state, ask)]
    if options.diversity is not None:
        room = _room(options, options.beam // options.diversity.groups)
        return diverse_search(step, state, ask, room=room, diversity=options.diversity, vocabulary=vocabulary)
    choice = Banks(Phrases(options.require), options.beam) if options.require else BEST
    return beam_search(step, state, ask, room=_room(options, options.beam), choice=choice, observer=observer)


def _room(options: SearchOptions, size: int) -> Room:
    return ShrinkingRoom(size) if options.patience is None else KeptRoom(size, options.patience)
