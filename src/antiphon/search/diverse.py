"""Diverse beam search (Vijayakumar et al. 2016): groups of beams, each kept away from what those before it say."""
# V vocabulary

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch

from antiphon.search.beam import Beam, Room
from antiphon.search.hypothesis import Ask, Hypothesis, Step
from antiphon.sequence import State

__all__ = ["Diversity", "diverse_search"]

S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Diversity:
    """So many groups; a token costs `strength` for each time a group before took it at the same step."""

    groups: int
    strength: float


def diverse_search(
    step: Step[S], state: S, ask: Ask, *, room: Room, diversity: Diversity, vocabulary: int
) -> list[list[Hypothesis]]:
    """The answers of all groups, best first; `room` is that of one group. Scores are the model's own."""
    beams = [Beam(state, ask, room) for _ in range(diversity.groups)]
    with torch.no_grad():
        for position in range(ask.max_length):
            if all(beam.done for beam in beams):
                break
            if ask.check is not None:
                ask.check()
            cost = torch.zeros(ask.sentences, vocabulary)
            for beam in beams:
                if not beam.done:
                    sentences, chosen = beam.advance(step, position, bonus=-cost)
                    rows = sentences.unsqueeze(1).expand_as(chosen.tokens)[chosen.taken]
                    price = torch.full(rows.shape, diversity.strength)
                    cost.index_put_((rows, chosen.tokens[chosen.taken]), price, accumulate=True)
    found = zip(*(beam.answers() for beam in beams), strict=True)
    return [_merged(groups) for groups in found]


def _merged(groups: tuple[list[Hypothesis], ...]) -> list[Hypothesis]:
    """Each answer once, finished before unfinished, then by score."""
    once = {answer.tokens: answer for answers in groups for answer in answers}
    return sorted(once.values(), key=lambda answer: (not answer.finished, -answer.score))
