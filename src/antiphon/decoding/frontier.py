"""The hypotheses that go on, how they are extended and which of the candidates stay."""
# B sentences still open, W hypotheses on the widest frontier, V vocabulary, C candidates chosen, T tokens so far

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.decoding.choice import Choice
from antiphon.decoding.constraints import IMPOSSIBLE, Constraints, Said
from antiphon.decoding.hypothesis import first_tokens
from antiphon.decoding.room import Room

__all__ = ["Candidates", "Frontier"]


@dataclass(frozen=True)
class Candidates:
    """The best candidates of each sentence, best first, each [B, C]."""

    slots: Tensor  # the hypothesis it extends
    tokens: Tensor
    log_probs: Tensor  # of the token
    totals: Tensor  # of all tokens up to it
    taken: Tensor  # possible, and there is room for it
    ended: Tensor  # taken, and the token is </s>


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
