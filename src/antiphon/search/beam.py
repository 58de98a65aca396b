"""Beam search.

The frontier holds k hypotheses. Each is extended by every token, and of the k·V candidates the k best stay. As the
lectures tell it, one that ends leaves the frontier, and the beam shrinks by one; search stops at 0, and k hypotheses
come back. What a Room says of that can be said otherwise; so can a Choice what "best" means.
"""
# B rows, N candidates, n blocks
# B sentences still open, W hypotheses of each, V vocabulary
# B sentences still open, C candidates of each, best first
# B sentences still open, W hypotheses on the widest frontier, V vocabulary, C candidates chosen, T tokens so far
# B sentences still open, V vocabulary

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from antiphon.search.backpointers import Trail
from antiphon.search.constraints import IMPOSSIBLE, Constraints, Said
from antiphon.search.hypothesis import Ask, Candidates, Hypothesis, Step, first_tokens
from antiphon.search.trace import Observer, nodes_of
from antiphon.sequence import State

__all__ = [
    "BEST",
    "Beam",
    "Best",
    "Choice",
    "Frontier",
    "KeptRoom",
    "Room",
    "ShrinkingRoom",
    "beam_search",
    "best_candidates",
    "highest",
]

# The best of many, in an order that nothing but the numbers decides.

BLOCK = 64  # tokens
LONG, MANY = 32 * BLOCK, 16  # columns and rows from which on two steps are quicker than one


def best_candidates(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest of each row of scores [B, N], highest first, and their places; ties: the lower place.

    torch.topk leaves the order of equal values open, so ties are settled here. NaN counts as -inf, and the places of
    -inf values mean nothing.
    """
    wanted = min(count + 1, scores.size(1))  # one more shows whether a tie was cut in two
    values, places = highest(scores, wanted)
    if bool(values.isnan().any()):  # to topk, NaN is the highest
        scores = scores.masked_fill(scores.isnan(), IMPOSSIBLE)
        values, places = highest(scores, wanted)
    equal = (values[:, 1:] == values[:, :-1]) & (values[:, 1:] > IMPOSSIBLE)
    rows = equal.any(dim=1).nonzero().squeeze(1)
    if rows.numel():  # rare, so only these rows are sorted whole
        ordered, order = scores[rows].sort(dim=1, descending=True, stable=True)
        values[rows], places[rows] = ordered[:, :wanted], order[:, :wanted]
    return values[:, :count], places[:, :count]


def highest(scores: Tensor, wanted: int) -> tuple[Tensor, Tensor]:
    """torch.topk of each row of [B, N].

    Many long rows in two steps: the highest are in the blocks whose own highest are. That is half the time for 64 rows
    of 8,000 and six tokens, a quarter for one token.
    """
    blocks = scores.size(1) // BLOCK
    if scores.size(0) < MANY or scores.size(1) < LONG or wanted > blocks:
        return scores.topk(wanted, dim=1)
    head, tail = scores[:, : blocks * BLOCK].reshape(-1, blocks, BLOCK), scores[:, blocks * BLOCK :]
    chosen = head.amax(dim=2).topk(wanted, dim=1).indices  # [B, wanted]
    few = head.gather(1, chosen.unsqueeze(2).expand(-1, -1, BLOCK)).flatten(1)
    columns = (chosen.unsqueeze(2) * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if tail.size(1):
        rest = torch.arange(blocks * BLOCK, scores.size(1), device=scores.device).expand_as(tail)
        few, columns = torch.cat([few, tail], dim=1), torch.cat([columns, rest], dim=1)
    values, places = few.topk(wanted, dim=1)
    return values, columns.gather(1, places)


# Which candidates of a beam are the best.


class Choice(Protocol):
    """Puts candidates in order."""

    def places(self, totals: Tensor, log_probs: Tensor, said: Said, count: int) -> Tensor:
        """The places of `count` candidates [B, count], best first, in log_probs [B, W, V] laid flat.

        A candidate's score is its log probability and the total [B, W] of the hypothesis that it extends.
        """
        ...


class Best:
    """By score; equal scores: the lower hypothesis, then the more probable token, then the lower."""

    def places(self, totals: Tensor, log_probs: Tensor, said: Said, count: int) -> Tensor:  # noqa: ARG002 (the score says it all)
        """What is best of all is among the best of its own hypothesis: so the totals are added to a few only."""
        B, W, V = log_probs.shape
        few = min(count, V)
        values, tokens = best_candidates(log_probs.reshape(B * W, V), few)
        scores = totals.unsqueeze(2) + values.reshape(B, W, few)
        chosen = best_candidates(scores.flatten(1), count)[1]  # [B, count]
        slots = chosen // few
        return slots * V + tokens.reshape(B, W * few).gather(1, chosen)


BEST = Best()


# How many hypotheses may stay, and when a sentence is done.


class Room(Protocol):
    """Where the ways to run a beam differ."""

    @property
    def size(self) -> int:
        """Of the beam: so many answers come back."""
        ...

    def candidates(self, finished: Tensor) -> int:
        """So many of the best candidates have to be known, given how many have ended [B]."""
        ...

    def taken(self, ends: Tensor, finished: Tensor) -> Tensor:
        """Of candidates that end or not [B, C], those that stay or leave finished; the others are pruned."""
        ...

    def full(self, finished: Tensor) -> Tensor:
        """Sentences [B] that need no more, although hypotheses could go on."""
        ...


@dataclass(frozen=True)
class ShrinkingRoom:
    """As the lectures tell it: one that ends leaves, and the beam shrinks by one."""

    size: int

    def candidates(self, finished: Tensor) -> int:
        return self.size - int(finished.min())

    def taken(self, ends: Tensor, finished: Tensor) -> Tensor:
        return torch.arange(ends.size(1), device=ends.device) < (self.size - finished).unsqueeze(1)

    def full(self, finished: Tensor) -> Tensor:
        return finished >= self.size


@dataclass(frozen=True)
class KeptRoom:
    """As other toolkits do it: `size` hypotheses go on beside those that have ended, until size x patience have.

    Only an end among the `size` best candidates counts.
    """

    size: int
    patience: float

    def candidates(self, finished: Tensor) -> int:  # noqa: ARG002 (always the same)
        return 2 * self.size  # at most half of them end

    def taken(self, ends: Tensor, finished: Tensor) -> Tensor:  # noqa: ARG002
        among = torch.arange(ends.size(1), device=ends.device) < self.size
        return torch.where(ends, among, (~ends).cumsum(dim=1) <= self.size)

    def full(self, finished: Tensor) -> Tensor:
        return finished >= math.ceil(self.size * self.patience)


# The hypotheses that go on, how they are extended and which of the candidates stay.


@dataclass(frozen=True)
class Frontier:
    """The open hypotheses of a sentence stand side by side, best first; an empty slot has the total -inf."""

    room: Room
    sentences: Tensor  # [B] numbers of the sentences still open
    finished: Tensor  # [B] how many hypotheses have ended
    totals: Tensor  # [B, W] sums of log probabilities
    tokens: Tensor  # [B, W] last tokens
    nodes: Tensor  # [B, W] where they stand in the trail
    said: Tensor  # [B, W, T] all tokens but the one before the first

    @classmethod
    def at_start(cls, sentences: int, start: int | list[int], room: Room) -> Frontier:
        """One empty hypothesis per sentence."""
        rows = torch.arange(sentences)
        tokens = first_tokens(start, sentences).unsqueeze(1)
        totals, said = torch.zeros((sentences, 1), dtype=torch.float32), tokens.new_zeros(sentences, 1, 0)
        return cls(room, rows, torch.zeros_like(rows), totals, tokens, rows.unsqueeze(1), said)

    def to(self, device: torch.device) -> Frontier:
        """The same where the model computes."""
        if self.tokens.device == device:
            return self
        values = (self.sentences, self.finished, self.totals, self.tokens, self.nodes, self.said)
        return Frontier(self.room, *(value.to(device) for value in values))

    @property
    def alive(self) -> Tensor:
        """Slots that hold a hypothesis [B, W]."""
        return self.totals > IMPOSSIBLE

    def extend(
        self, log_probs: Tensor, constraints: Constraints, choice: Choice, *, end: int, spare: int, bonus: Tensor | None
    ) -> Candidates:
        """The best of the W·V candidates of log_probs [B·W, V], and `spare` more that are not taken.

        What is impossible is written into log_probs. A bonus [sentences, V] counts in the choice only.
        """
        B, W = self.tokens.shape
        V = log_probs.size(1)
        each, said = log_probs.reshape(B, W, V), Said(self.sentences, self.said)
        constraints.apply(each, said)
        count = min(self.room.candidates(self.finished) + spare, W * V)
        wanted = each if bonus is None else each + bonus.to(each.device)[self.sentences].unsqueeze(1)
        places = choice.places(self.totals, wanted, said, count)
        own, slots, tokens = each.reshape(B, W * V).gather(1, places), places // V, places % V
        totals = self.totals.gather(1, slots) + own
        totals = totals.masked_fill(totals.isnan(), IMPOSSIBLE)
        taken = self.room.taken(tokens == end, self.finished) & (totals > IMPOSSIBLE)
        return Candidates(slots, tokens, own, totals, taken, taken & (tokens == end))

    def advance(self, chosen: Candidates, nodes: Tensor) -> tuple[Frontier, Tensor]:
        """The next frontier [B', W'], no wider than its fullest sentence, and the old rows it continues [B', W']."""
        finished = self.finished + chosen.ended.sum(dim=1)
        going = chosen.taken & ~chosen.ended & ~self.room.full(finished).unsqueeze(1)
        kept = going.sum(dim=1)
        still = kept.nonzero().squeeze(1)
        # A stable sort brings the hypotheses that go on (0) before the others (1) and keeps their order.
        order = (~going[still]).byte().argsort(dim=1, stable=True)[:, : int(kept.max())]

        def pick(values: Tensor) -> Tensor:
            return values[still].gather(1, order)

        slots, tokens = pick(chosen.slots), pick(chosen.tokens)
        before = self.said[still].gather(1, slots.unsqueeze(2).expand(-1, -1, self.said.size(2)))
        after = Frontier(
            room=self.room,
            sentences=self.sentences[still],
            finished=finished[still],
            totals=pick(chosen.totals.masked_fill(~going, IMPOSSIBLE)),
            tokens=tokens,
            nodes=pick(nodes),
            said=torch.cat([before, tokens.unsqueeze(2)], dim=2),
        )
        return after, still.unsqueeze(1) * self.tokens.size(1) + slots


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
