"""Beam search.

The frontier holds k hypotheses. Each is extended by every token, and of the k·V candidates the k best stay. As the
lectures tell it, one that ends leaves the frontier, and the beam shrinks by one; search stops at 0, and k hypotheses
come back. What a Room says of that can be said otherwise; so can a Choice what "best" means.
"""
# B sentences still open, V vocabulary

from __future__ import annotations

from typing import Generic, TypeVar

import torch
from torch import Tensor

from antiphon.decoding.ask import Ask
from antiphon.decoding.choice import BEST, Choice
from antiphon.decoding.constraints import Constraints
from antiphon.decoding.frontier import Candidates, Frontier
from antiphon.decoding.hypothesis import Hypothesis, Step
from antiphon.decoding.observer import Observer, nodes_of
from antiphon.decoding.room import Room
from antiphon.decoding.trail import Trail
from antiphon.sequence import State

__all__ = ["Beam", "beam_search"]

S = TypeVar("S", bound=State)


class Beam(Generic[S]):
    """One beam on its way, step by step."""

    def __init__(self, state: S, ask: Ask, room: Room, choice: Choice = BEST, observer: Observer | None = None) -> None:
        self.ask, self.room, self.choice, self.observer = ask, room, choice, observer
        self.state = state
        self.constraints = Constraints(ask.sentences, ask.prefixes, ask.rules)
        self.frontier = Frontier.at_start(ask.sentences, ask.start, room)
        self.trail = Trail()

    @property
    def done(self) -> bool:
        return self.frontier.sentences.numel() == 0

    def advance(self, step: Step[S], position: int, bonus: Tensor | None = None) -> tuple[Tensor, Candidates]:
        """One step further. A bonus [sentences, V] counts in the choice only, not in the scores.

        Returns the sentences that were open [B] and what was chosen of their candidates.
        """
        log_probs, state = step(self.frontier.tokens.flatten(), self.state)
        frontier = self.frontier.to(log_probs.device)
        spare = 0 if self.observer is None else self.observer.pruned
        chosen = frontier.extend(log_probs, self.constraints, self.choice, end=self.ask.end, spare=spare, bonus=bonus)
        if self.observer is not None:
            self.observer(nodes_of(chosen, frontier.sentences, position, self.ask.length_penalty))
        nodes = self.trail.add(frontier.nodes.gather(1, chosen.slots), chosen.tokens, chosen.log_probs)
        self.trail.close(frontier.sentences, nodes, chosen.ended, finished=True)
        stuck = frontier.alive & ~chosen.taken.any(dim=1, keepdim=True)
        self.trail.close(frontier.sentences, frontier.nodes, stuck, finished=False, back=1)
        self.frontier, rows = frontier.advance(chosen, nodes)
        self.state = state.select(rows) if rows.numel() else state
        return frontier.sentences, chosen

    def answers(self) -> list[list[Hypothesis]]:
        """What has ended, best first, and after it what was cut; at most `room.size` of each sentence."""
        self.trail.close(self.frontier.sentences, self.frontier.nodes, self.frontier.alive, finished=False)
        found = self.trail.hypotheses(self.ask.sentences, self.ask.length_penalty)
        return [answers[: self.room.size] for answers in found]


def beam_search(
    step: Step[S], state: S, ask: Ask, *, room: Room, choice: Choice = BEST, observer: Observer | None = None
) -> list[list[Hypothesis]]:
    """At most `room.size` answers per sentence, best first; after them those that `max_length` cut.

    Answers are fewer only where no more exist, or where the room was full before. Where no hypothesis of a sentence
    can go on, those that got stuck come back unfinished. Equal scores: see the choice. All hypotheses on a frontier are
    equally long, so `length_penalty` matters for the final order only.
    """
    beam = Beam(state, ask, room, choice, observer)
    with torch.no_grad():
        for position in range(ask.max_length):
            if beam.done:
                break
            if ask.check is not None:
                ask.check()
            beam.advance(step, position)
    return beam.answers()
