"""Beam search.

The frontier holds the k best hypotheses of each sentence. A step extends every hypothesis by every token and keeps the
k best of the k·V candidates; a hypothesis that ends in </s> leaves the frontier. A `BeamPolicy` decides how many
candidates stay and when a sentence is done, a `Ranking` which candidates are best.
"""
# B open sentences, W hypotheses on the widest frontier, V vocabulary, C candidates, T tokens so far

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from antiphon.search.constraints import IMPOSSIBLE, Constraints, History, reads_history
from antiphon.search.hypothesis import (
    Backpointers,
    Candidates,
    Hypothesis,
    SearchRequest,
    StepFunction,
    first_tokens,
    stable_topk,
)
from antiphon.search.trace import Observer, candidate_list
from antiphon.sequence import State

__all__ = ["Beam", "BeamPolicy", "PatientBeam", "ShrinkingBeam", "beam_search", "search_single"]

S = TypeVar("S", bound=State)


def beam_search(
    step: StepFunction[S],
    state: S,
    request: SearchRequest,
    *,
    policy: BeamPolicy,
    ranking: Ranking | None = None,
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """The `policy.size` best hypotheses of each sentence, finished ones first; `ranking` is by score unless given.

    Fewer come back only where no more exist, or where the policy stops earlier. Hypotheses that were cut at
    `max_length`, or that no token could extend, are unfinished. All hypotheses on a frontier are equally long, so
    `length_penalty` affects the final order only.
    """
    if request.sentences == 1 and ranking is None and observer is None and not reads_history(request.constraints):
        return [search_single(step, state, request, policy)]
    beam = Beam(state, request, policy, ranking, observer)
    with torch.no_grad():
        for position in range(request.max_length):
            if beam.done:
                break
            if request.check is not None:
                request.check()
            beam.advance(step, position)
    return beam.hypotheses()


class Node(NamedTuple):
    """A token of a hypothesis of `search_single`, and the one before it."""

    parent: Node | None
    token: int
    log_prob: float


def search_single(step: StepFunction[S], state: S, request: SearchRequest, policy: BeamPolicy) -> list[Hypothesis]:
    """The beam search for one sentence, with its few hypotheses as Python objects: the same, in a third of the time."""
    constraints = Constraints(1, request.prefixes, request.constraints)
    tokens, sentence = first_tokens(request.start, 1), torch.zeros(1, dtype=torch.long)
    frontier: list[Node | None] = [None]
    totals, ended, finished = np.zeros((1, 1), dtype=np.float32), list[tuple[Node | None, bool]](), 0
    with torch.no_grad():
        for position in range(request.max_length):
            if not frontier:
                break
            if request.check is not None:
                request.check()
            scores, state = step(tokens, state)
            no_history = sentence.expand(1, len(frontier), position)  # its length is all that is looked at
            constraints.apply(scores.unsqueeze(0), History(sentence.to(scores.device), no_history))
            done = torch.tensor([finished])
            count = min(policy.candidate_count(done), scores.numel())
            values, best = (part.cpu().numpy() for part in stable_topk(scores, min(count, scores.size(1))))
            sums = totals + values  # [W, few]
            ranked = np.argsort(-sums, axis=None, kind="stable")[:count]
            slots, own, sums = (
                (ranked // values.shape[1]).tolist(),
                values.ravel()[ranked].tolist(),
                sums.ravel()[ranked],
            )
            nodes = [
                Node(frontier[slot], token, value)
                for slot, token, value in zip(slots, best.ravel()[ranked].tolist(), own, strict=True)
            ]
            ends = torch.tensor([[node.token == request.end for node in nodes]])
            chosen = (policy.select(ends, done)[0].numpy() & (sums > IMPOSSIBLE)).nonzero()[0].tolist()
            going = [rank for rank in chosen if nodes[rank].token != request.end]
            ended += [(nodes[rank], True) for rank in chosen if nodes[rank].token == request.end]
            finished += len(chosen) - len(going)
            if not chosen:
                ended += [(node, False) for node in frontier]
            elif bool(policy.is_done(torch.tensor([finished]))):
                going = []
            frontier, totals = [nodes[rank] for rank in going], sums[going][:, None]
            if going:
                tokens = torch.tensor([nodes[rank].token for rank in going], device=scores.device)
                state = state.select(torch.tensor([[slots[rank] for rank in going]], device=scores.device))
    ended += [(node, False) for node in frontier]
    found = [_hypothesis(node, request.length_penalty, finished=whole) for node, whole in ended]
    found.sort(key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
    return found[: policy.size]


def _hypothesis(node: Node | None, length_penalty: float, *, finished: bool) -> Hypothesis:
    tokens, log_probs = [], []
    while node is not None:
        tokens.append(node.token)
        log_probs.append(node.log_prob)
        node = node.parent
    return Hypothesis.of(tokens[::-1], log_probs[::-1], finished=finished, length_penalty=length_penalty)


class Beam(Generic[S]):
    """The state of a beam search between two steps."""

    def __init__(
        self,
        state: S,
        request: SearchRequest,
        policy: BeamPolicy,
        ranking: Ranking | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.request, self.policy, self.ranking, self.observer = request, policy, ranking or ByScore(), observer
        self.state = state
        self.constraints = Constraints(request.sentences, request.prefixes, request.constraints)
        self.frontier = Frontier.at_start(request.sentences, request.start)
        self.backpointers = Backpointers()

    @property
    def done(self) -> bool:
        return self.frontier.sentences.numel() == 0

    def advance(self, step: StepFunction[S], position: int, bonus: Tensor | None = None) -> tuple[Tensor, Candidates]:
        """Extend all hypotheses by one token; return the sentences that were open [B] and their candidates.

        A bonus [sentences, V] changes the ranking only, not the scores.
        """
        log_probs, state = step(self.frontier.tokens.flatten(), self.state)
        frontier = self.frontier.to(log_probs.device)
        candidates = self._extend(frontier, log_probs, bonus)
        if self.observer is not None:
            self.observer(candidate_list(candidates, frontier.sentences, position, self.request.length_penalty))
        nodes = self._record(frontier, candidates)
        self.frontier, rows = frontier.advance(candidates, nodes, self.policy)
        self.state = state.select(rows) if rows.numel() else state
        return frontier.sentences, candidates

    def _extend(self, frontier: Frontier, log_probs: Tensor, bonus: Tensor | None) -> Candidates:
        """The best of the W·V candidates of log_probs [B·W, V], in which the constraints write -inf."""
        B, W = frontier.tokens.shape
        V, history = log_probs.size(1), History(frontier.sentences, frontier.history)
        log_probs = log_probs.reshape(B, W, V)
        self.constraints.apply(log_probs, history)
        pruned = 0 if self.observer is None else self.observer.pruned
        count = min(self.policy.candidate_count(frontier.finished) + pruned, W * V)
        adjusted = log_probs if bonus is None else log_probs + bonus.to(log_probs.device)[frontier.sentences, None]
        indices = self.ranking.rank(frontier.totals, adjusted, history, count)
        own, slots, tokens = log_probs.flatten(1).gather(1, indices), indices // V, indices % V
        totals = frontier.totals.gather(1, slots) + own
        totals = totals.masked_fill(totals.isnan(), IMPOSSIBLE)
        ends = tokens == self.request.end
        selected = self.policy.select(ends, frontier.finished) & (totals > IMPOSSIBLE)
        return Candidates(slots, tokens, own, totals, selected, selected & ends)

    def _record(self, frontier: Frontier, candidates: Candidates) -> Tensor:
        """Store backpointers of all candidates and return their nodes [B, C].

        Hypotheses end here with </s>, or because no candidate of their sentence is possible.
        """
        parents = frontier.nodes.gather(1, candidates.slots)
        nodes = self.backpointers.add(parents, candidates.tokens, candidates.log_probs)
        self.backpointers.close(frontier.sentences, nodes, candidates.ended, finished=True)
        dead_ends = frontier.alive & ~candidates.selected.any(dim=1, keepdim=True)
        self.backpointers.close(frontier.sentences, frontier.nodes, dead_ends, finished=False, back=1)
        return nodes

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Finished hypotheses, best first, then unfinished ones; at most `policy.size` of each sentence."""
        frontier = self.frontier
        self.backpointers.close(frontier.sentences, frontier.nodes, frontier.alive, finished=False)
        found = self.backpointers.hypotheses(self.request.sentences, self.request.length_penalty)
        return [hypotheses[: self.policy.size] for hypotheses in found]


@dataclass(frozen=True)
class Frontier:
    """The open hypotheses of each sentence side by side, best first; an empty slot has the total -inf."""

    sentences: Tensor  # [B] indices of the open sentences
    finished: Tensor  # [B] number of finished hypotheses
    totals: Tensor  # [B, W] sums of log probabilities
    tokens: Tensor  # [B, W] last tokens
    nodes: Tensor  # [B, W] nodes in the backpointers
    history: Tensor  # [B, W, T] all tokens after the start token

    @classmethod
    def at_start(cls, sentences: int, start: int | list[int]) -> Frontier:
        """One empty hypothesis per sentence."""
        rows = torch.arange(sentences)
        tokens = first_tokens(start, sentences).unsqueeze(1)
        totals, history = torch.zeros((sentences, 1), dtype=torch.float32), tokens.new_zeros(sentences, 1, 0)
        return cls(rows, torch.zeros_like(rows), totals, tokens, rows.unsqueeze(1), history)

    def to(self, device: torch.device) -> Frontier:
        """The frontier on the device of the model."""
        if self.tokens.device == device:
            return self
        values = (self.sentences, self.finished, self.totals, self.tokens, self.nodes, self.history)
        return Frontier(*(value.to(device) for value in values))

    @property
    def alive(self) -> Tensor:
        """Slots that hold a hypothesis [B, W]."""
        return self.totals > IMPOSSIBLE

    def advance(self, candidates: Candidates, nodes: Tensor, policy: BeamPolicy) -> tuple[Frontier, Tensor]:
        """The next frontier [B', W'], as wide as its fullest sentence, and the rows of this one it continues [B', W'].

        Sentences that are done leave the batch.
        """
        finished = self.finished + candidates.ended.sum(dim=1)
        going = candidates.selected & ~candidates.ended & ~policy.is_done(finished).unsqueeze(1)
        width = going.sum(dim=1)
        stays = width > 0
        still = None if bool(stays.all()) else stays.nonzero().squeeze(1)

        def of_open(values: Tensor) -> Tensor:
            return values if still is None else values[still]

        # A stable sort brings the hypotheses that go on (0) before the others (1) and keeps their order.
        order = (~of_open(going)).byte().argsort(dim=1, stable=True)[:, : int(width.max())]

        def pick(values: Tensor) -> Tensor:
            return of_open(values).gather(1, order)

        slots, tokens = pick(candidates.slots), pick(candidates.tokens)
        before = of_open(self.history).gather(1, slots.unsqueeze(2).expand(-1, -1, self.history.size(2)))
        rows = torch.arange(going.size(0), device=going.device) if still is None else still
        after = Frontier(
            sentences=of_open(self.sentences),
            finished=of_open(finished),
            totals=pick(candidates.totals.masked_fill(~going, IMPOSSIBLE)),
            tokens=tokens,
            nodes=pick(nodes),
            history=torch.cat([before, tokens.unsqueeze(2)], dim=2),
        )
        return after, rows.unsqueeze(1) * self.tokens.size(1) + slots


class BeamPolicy(Protocol):
    """Decides how many candidates stay on the frontier, and when a sentence is done."""

    @property
    def size(self) -> int:
        """The size of the beam: the number of hypotheses that come back."""
        ...

    def candidate_count(self, finished: Tensor) -> int:
        """The number of best candidates to look at, given the numbers of finished hypotheses [B]."""
        ...

    def select(self, ends: Tensor, finished: Tensor) -> Tensor:
        """Of candidates [B, C], those that go on or finish; `ends` is True at </s>. The others are pruned."""
        ...

    def is_done(self, finished: Tensor) -> Tensor:
        """Sentences [B] that have enough finished hypotheses."""
        ...


@dataclass(frozen=True)
class ShrinkingBeam:
    """The textbook's beam: it shrinks by one with each hypothesis that finishes, and search stops at zero."""

    size: int

    def candidate_count(self, finished: Tensor) -> int:
        return self.size - int(finished.min())

    def select(self, ends: Tensor, finished: Tensor) -> Tensor:
        return torch.arange(ends.size(1), device=ends.device) < (self.size - finished).unsqueeze(1)

    def is_done(self, finished: Tensor) -> Tensor:
        return finished >= self.size


@dataclass(frozen=True)
class PatientBeam:
    """The beam of most toolkits: `size` hypotheses go on until size x patience have finished (Kasai et al. 2022).

    Only an end among the `size` best candidates counts.
    """

    size: int
    patience: float

    def candidate_count(self, finished: Tensor) -> int:  # noqa: ARG002 (always the same)
        return 2 * self.size  # at most half of them end

    def select(self, ends: Tensor, finished: Tensor) -> Tensor:  # noqa: ARG002
        among_best = torch.arange(ends.size(1), device=ends.device) < self.size
        return torch.where(ends, among_best, (~ends).cumsum(dim=1) <= self.size)

    def is_done(self, finished: Tensor) -> Tensor:
        return finished >= math.ceil(self.size * self.patience)


class Ranking(Protocol):
    """Orders the candidates of a beam."""

    def rank(self, totals: Tensor, log_probs: Tensor, history: History, count: int) -> Tensor:
        """Indices [B, count] of the best candidates in log_probs [B, W, V] laid flat, best first.

        The score of a candidate is its log probability plus the total [B, W] of the hypothesis that it extends.
        """
        ...


class ByScore:
    """Ranking by score; ties go to the lower hypothesis, then to the more probable token, then to the lower token."""

    def rank(self, totals: Tensor, log_probs: Tensor, history: History, count: int) -> Tensor:  # noqa: ARG002
        """The best of all are among the best of each hypothesis, so totals are added to those only."""
        B, W, V = log_probs.shape
        few = min(count, V)
        values, tokens = stable_topk(log_probs.reshape(B * W, V), few)
        scores = totals.unsqueeze(2) + values.reshape(B, W, few)
        chosen = stable_topk(scores.flatten(1), count)[1]  # [B, count]
        return chosen // few * V + tokens.reshape(B, W * few).gather(1, chosen)
