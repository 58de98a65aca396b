"""Beam search.

The frontier holds k hypotheses. Each is extended by every token, and of the k·V candidates the k best stay. As the
lectures tell it, one that ends leaves the frontier, and the beam shrinks by one; search stops at 0, and k hypotheses
come back. What a Room says of that can be said otherwise.
"""

from __future__ import annotations

from typing import TypeVar

import torch

from antiphon.decoding.constraints import Constraints, Rule
from antiphon.decoding.frontier import Frontier
from antiphon.decoding.hypothesis import Check, Hypothesis, Step
from antiphon.decoding.observer import Observer, nodes_of
from antiphon.decoding.room import Room
from antiphon.decoding.trail import Trail
from antiphon.sequence import State

__all__ = ["beam_search"]

S = TypeVar("S", bound=State)


def beam_search(
    step: Step[S],
    state: S,
    *,
    sentences: int,
    start: int | list[int],
    end: int,
    room: Room,
    max_length: int,
    length_penalty: float,
    prefixes: list[list[int]] | None = None,
    rules: tuple[Rule, ...] = (),
    observer: Observer | None = None,
    check: Check | None = None,
) -> list[list[Hypothesis]]:
    """At most `room.size` answers per sentence, best first; after them those that `max_length` cut (</s> counts).

    Answers are fewer only where no more exist. Where no hypothesis of a sentence can go on, those that got
    stuck come back unfinished. Equal scores: the lower hypothesis, then the lower token. All hypotheses on a frontier
    are equally long, so `length_penalty` matters for the final order only.
    """
    constraints = Constraints(sentences, prefixes, rules)
    frontier = Frontier.at_start(sentences, start, room)
    trail = Trail()
    spare = 0 if observer is None else observer.pruned
    with torch.no_grad():
        for position in range(max_length):
            if frontier.sentences.numel() == 0:
                break
            if check is not None:
                check()
            log_probs, state = step(frontier.tokens.flatten(), state)
            frontier = frontier.to(log_probs.device)
            chosen = frontier.extend(log_probs, constraints, end=end, spare=spare)
            if observer is not None:
                observer(nodes_of(chosen, frontier.sentences, position, length_penalty))
            nodes = trail.add(frontier.nodes.gather(1, chosen.slots), chosen.tokens, chosen.log_probs)
            trail.close(frontier.sentences, nodes, chosen.ended, finished=True)
            stuck = frontier.alive & ~chosen.taken.any(dim=1, keepdim=True)
            trail.close(frontier.sentences, frontier.nodes, stuck, finished=False, back=1)
            frontier, rows = frontier.advance(chosen, nodes)
            if rows.numel():
                state = state.select(rows)
    trail.close(frontier.sentences, frontier.nodes, frontier.alive, finished=False)
    return [answers[: room.size] for answers in trail.hypotheses(sentences, length_penalty)]
