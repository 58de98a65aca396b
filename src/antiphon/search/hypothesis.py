"""The parts that searches share: step function, request, candidates, hypotheses, backpointers, the k highest scores."""
# R rows = sentences x hypotheses (neighbours share a sentence), V vocabulary, B open sentences, C candidates,
# N columns, T steps, M ended hypotheses

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.search.constraints import IMPOSSIBLE, Constraint
from antiphon.sequence import State

__all__ = [
    "MIN_ROWS", "Backpointers", "Candidates", "Check", "Hypothesis", "SearchRequest", "StepFunction", "first_tokens",
    "normalised_score", "stable_topk",
]  # fmt: skip

S = TypeVar("S", bound=State)

Check = Callable[[], None]
"""Called before each step; it may raise an exception, which stops the search."""


class StepFunction(Protocol[S]):
    """One decoding step of any model."""

    def __call__(self, tokens: Tensor, state: S, /) -> tuple[Tensor, S]:
        """Last tokens [R] and their state → log probabilities of the next tokens [R, V] and the state after.

        Search may write into the log probabilities.
        """
        ...


@dataclass(frozen=True)
class SearchRequest:
    """The part of a search that does not depend on its kind."""

    sentences: int
    start: int | list[int]  # the token before the first, one for all or one for each
    end: int  # </s>
    max_length: int  # in tokens; </s> counts
    length_penalty: float = 0.0  # the exponent a of sum(log p) / length^a
    prefixes: list[list[int]] | None = None  # forced beginnings, one for each sentence
    constraints: tuple[Constraint, ...] = ()
    check: Check | None = None


def first_tokens(start: int | list[int], sentences: int) -> Tensor:
    """The token before the first one, the same for all sentences or one for each [sentences]."""
    return torch.tensor(start, dtype=torch.long).expand(sentences).clone()


@dataclass(frozen=True)
class Candidates:
    """The best candidates of each sentence, best first, each [B, C]."""

    slots: Tensor  # the hypothesis that it extends
    tokens: Tensor
    log_probs: Tensor  # of the token
    totals: Tensor  # sums of the log probabilities up to the token
    selected: Tensor  # goes on or finishes; False: pruned or impossible
    ended: Tensor  # selected, and the token is </s>


def normalised_score(log_prob: float, length: int, length_penalty: float) -> float:
    """Length normalisation: score = sum(log p) / length ^ length_penalty; the length counts </s>."""
    return float(log_prob / max(1, length) ** length_penalty)


@dataclass(frozen=True)
class Hypothesis:
    """An answer: tokens without <s>, and with </s> at the end if it is finished."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    score: float
    finished: bool

    @classmethod
    def of(cls, tokens: list[int], log_probs: list[float], *, finished: bool, length_penalty: float) -> Hypothesis:
        """The hypothesis with its normalised score."""
        score = normalised_score(sum(log_probs), len(tokens), length_penalty)
        return cls(tuple(tokens), tuple(log_probs), score, finished)

    @property
    def log_prob(self) -> float:
        """log p(answer | source), not normalised."""
        return sum(self.log_probs)


# Backpointers: from the end of a hypothesis to its start.


@dataclass(frozen=True)
class _Expansion:
    """The candidates of one step, flat: the node of the step before that each extends, and what it adds."""

    parents: Tensor
    tokens: Tensor
    log_probs: Tensor


@dataclass(frozen=True)
class _Ends:
    """Hypotheses that ended together: their sentences and their nodes in step `last` (-1: before the first)."""

    sentences: Tensor
    nodes: Tensor
    last: int
    finished: bool


class Backpointers:
    """The candidates of every step as tensors; hypotheses are rebuilt once, at the end, all together."""

    def __init__(self) -> None:
        self._steps: list[_Expansion] = []
        self._ends: list[_Ends] = []

    def add(self, parents: Tensor, tokens: Tensor, log_probs: Tensor) -> Tensor:
        """Add a step, each [B, C]; return the nodes [B, C] that the next step refers to as parents."""
        self._steps.append(_Expansion(parents.flatten(), tokens.flatten(), log_probs.flatten()))
        return torch.arange(tokens.numel(), device=tokens.device).view(tokens.shape)

    def close(self, sentences: Tensor, nodes: Tensor, where: Tensor, *, finished: bool, back: int = 0) -> None:
        """End hypotheses at nodes [B, C] of the last step (or `back` steps before), where True."""
        if bool(where.any()):
            rows, columns = where.nonzero(as_tuple=True)
            self._ends.append(_Ends(sentences[rows], nodes[rows, columns], len(self._steps) - 1 - back, finished))

    def hypotheses(self, sentences: int, length_penalty: float) -> list[list[Hypothesis]]:
        """All that ended, by sentence: finished before unfinished, then by score, then in the order they ended."""
        found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        tokens, log_probs = self._trace_back()
        row = 0
        for ends in self._ends:
            for sentence in ends.sentences.tolist():
                own, values = tokens[row, : ends.last + 1].tolist(), log_probs[row, : ends.last + 1].tolist()
                hypothesis = Hypothesis.of(own, values, finished=ends.finished, length_penalty=length_penalty)
                found[sentence].append(hypothesis)
                row += 1
        for hypotheses in found:
            hypotheses.sort(key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
        return found

    def _trace_back(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Tokens and log probabilities of all hypotheses [M, T]; of each row only the first `last + 1` count."""
        count, steps = sum(ends.nodes.numel() for ends in self._ends), len(self._steps)
        tokens = np.zeros((count, steps), dtype=np.int64)
        log_probs = np.zeros((count, steps), dtype=np.float64)
        nodes = np.concatenate([ends.nodes.cpu().numpy() for ends in self._ends] or [np.zeros(0, dtype=np.int64)])
        last = np.repeat([ends.last for ends in self._ends], [ends.nodes.numel() for ends in self._ends])
        for position in reversed(range(steps)):
            step = self._steps[position]
            rows = np.flatnonzero(last >= position)
            tokens[rows, position] = step.tokens.cpu().numpy()[nodes[rows]]
            log_probs[rows, position] = step.log_probs.cpu().double().numpy()[nodes[rows]]
            nodes[rows] = step.parents.cpu().numpy()[nodes[rows]]
        return tokens, log_probs


# The k highest scores of each row, in an order that depends on nothing but the scores.

BLOCK = 64  # columns
MIN_COLUMNS, MIN_ROWS = 32 * BLOCK, 16  # from here on two steps are faster than one


def stable_topk(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest of each row of scores [B, N], highest first, and their indices; ties: the lower index.

    torch.topk leaves the order of equal values open. NaN counts as -inf; the indices of -inf values mean nothing.
    """
    wanted = min(count + 1, scores.size(1))  # one more shows whether a tie was cut in two
    values, indices = blockwise_topk(scores, wanted)
    if wanted > 1 and bool((values[:, 1:] < values[:, :-1]).all()):  # neither ties nor NaN
        return values[:, :count], indices[:, :count]
    if bool(values.isnan().any()):  # to topk, NaN is the highest
        scores = scores.masked_fill(scores.isnan(), IMPOSSIBLE)
        values, indices = blockwise_topk(scores, wanted)
    equal = (values[:, 1:] == values[:, :-1]) & (values[:, 1:] > IMPOSSIBLE)
    rows = equal.any(dim=1).nonzero().squeeze(1)
    if rows.numel():  # rare, so only these rows are sorted whole
        ordered, order = scores[rows].sort(dim=1, descending=True, stable=True)
        values[rows], indices[rows] = ordered[:, :wanted], order[:, :wanted]
    return values[:, :count], indices[:, :count]


def blockwise_topk(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """torch.topk of each row of [B, N]; long rows in two steps: the best blocks first, then the best in them.

    For 64 rows of 8,000 this takes half the time for six values, a quarter for one.
    """
    blocks = scores.size(1) // BLOCK
    if scores.size(0) < MIN_ROWS or scores.size(1) < MIN_COLUMNS or count > blocks:
        return scores.topk(count, dim=1)
    head, tail = scores[:, : blocks * BLOCK].reshape(-1, blocks, BLOCK), scores[:, blocks * BLOCK :]
    chosen = head.amax(dim=2).topk(count, dim=1).indices  # [B, count]
    few = head.gather(1, chosen.unsqueeze(2).expand(-1, -1, BLOCK)).flatten(1)
    columns = (chosen.unsqueeze(2) * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if tail.size(1):
        rest = torch.arange(blocks * BLOCK, scores.size(1), device=scores.device).expand_as(tail)
        few, columns = torch.cat([few, tail], dim=1), torch.cat([columns, rest], dim=1)
    values, indices = few.topk(count, dim=1)
    return values, columns.gather(1, indices)
