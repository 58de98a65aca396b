"""Constraints: they set the log probabilities of candidates to -inf."""
# N sentences, B of them still open, W hypotheses of each, V vocabulary, T tokens so far, P longest prefix

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

__all__ = [
    "IMPOSSIBLE", "Constraint", "Constraints", "ForbiddenPhrases", "ForbiddenTokens", "History", "MaxLength",
    "MinLength", "NoRepeatNgram", "reads_history",
]  # fmt: skip

FREE = -1  # no token is forced here
IMPOSSIBLE = float("-inf")


@dataclass(frozen=True)
class History:
    """The tokens of the open hypotheses so far."""

    sentences: Tensor  # [B] indices of the sentences
    tokens: Tensor  # [B, W, T] without the start token

    @property
    def length(self) -> int:
        return self.tokens.size(2)


class Constraint(Protocol):
    """Forbids candidates, depending on the history."""

    def apply(self, scores: Tensor, history: History) -> None:
        """Write -inf into scores [B, W, V], in place."""
        ...


def reads_history(constraints: tuple[Constraint, ...]) -> bool:
    """True if one of them may read the tokens of a history, not just their number."""
    return not all(isinstance(constraint, ForbiddenTokens | MinLength | MaxLength) for constraint in constraints)


class Constraints:
    """Forced prefixes and all constraints of a search.

    At a forced position every other token gets -inf. The forced token keeps its log probability, even if a constraint
    forbids it.
    """

    def __init__(self, sentences: int, prefixes: list[list[int]] | None, constraints: tuple[Constraint, ...]) -> None:
        prefixes = prefixes if prefixes is not None else [[]] * sentences
        if len(prefixes) != sentences:
            raise ValueError(f"{len(prefixes)} prefixes for {sentences} sentences; give one (or an empty one) for each")
        self.longest = max((len(prefix) for prefix in prefixes), default=0)
        self.forced = torch.full((sentences, self.longest), FREE, dtype=torch.long)  # [N, P]
        for row, prefix in zip(self.forced, prefixes, strict=True):
            row[: len(prefix)] = torch.tensor(prefix, dtype=torch.long)
        self.constraints = constraints

    def apply(self, scores: Tensor, history: History) -> None:
        """Write -inf into scores [B, W, V], in place."""
        if history.length >= self.longest:
            self._apply_all(scores, history)
            return
        forced = self.forced.to(scores.device)[history.sentences, history.length]  # [B]
        rows = (forced != FREE).nonzero().squeeze(1)
        tokens = forced[rows]
        own = scores[rows, :, tokens]  # [rows, W]
        self._apply_all(scores, history)
        scores[rows] = IMPOSSIBLE
        scores[rows, :, tokens] = own

    def _apply_all(self, scores: Tensor, history: History) -> None:
        for constraint in self.constraints:
            constraint.apply(scores, history)


@dataclass(frozen=True)
class ForbiddenTokens:
    """Tokens that never occur."""

    tokens: tuple[int, ...]

    def apply(self, scores: Tensor, history: History) -> None:  # noqa: ARG002 (whatever stands before)
        scores.index_fill_(2, self._index.to(scores.device), IMPOSSIBLE)

    @cached_property
    def _index(self) -> Tensor:
        return torch.tensor(self.tokens, dtype=torch.long)


@dataclass(frozen=True)
class ForbiddenPhrases:
    """Phrases that never occur: the last token of each is forbidden after the others."""

    phrases: tuple[tuple[int, ...], ...]

    def apply(self, scores: Tensor, history: History) -> None:
        for *begun, last in self.phrases:
            if history.length >= len(begun):
                tail = history.tokens[:, :, history.length - len(begun) :]  # [B, W, len(begun)]
                here = (tail == tail.new_tensor(begun)).all(dim=2)
                scores[:, :, last].masked_fill_(here, IMPOSSIBLE)


@dataclass(frozen=True)
class MinLength:
    """The minimum length of an answer of each sentence, </s> counted: no </s> before it."""

    end: int
    lengths: tuple[int, ...]

    def apply(self, scores: Tensor, history: History) -> None:
        if self.end < 0 or history.length + 1 >= max(self.lengths, default=0):  # a stream has no end
            return
        short = (_of_sentences(self.lengths, history, scores) > history.length + 1).nonzero().squeeze(1)
        scores[short, :, self.end] = IMPOSSIBLE


@dataclass(frozen=True)
class MaxLength:
    """The maximum length of an answer of each sentence, </s> counted; at this length it comes back unfinished."""

    lengths: tuple[int, ...]

    def apply(self, scores: Tensor, history: History) -> None:
        if history.length < min(self.lengths, default=0):
            return
        full = (_of_sentences(self.lengths, history, scores) <= history.length).nonzero().squeeze(1)
        scores[full] = IMPOSSIBLE


@dataclass(frozen=True)
class NoRepeatNgram:
    """No n-gram of this length occurs twice in an answer."""

    n: int

    def apply(self, scores: Tensor, history: History) -> None:
        if history.length < self.n:
            return
        ngrams = history.tokens.unfold(2, self.n, 1)  # [B, W, T - n + 1, n]
        last = history.tokens[:, :, history.length - self.n + 1 :].unsqueeze(2)  # the last n - 1 tokens
        rows, slots, positions = (ngrams[..., :-1] == last).all(dim=3).nonzero(as_tuple=True)
        scores[rows, slots, ngrams[rows, slots, positions, -1]] = IMPOSSIBLE


def _of_sentences(lengths: tuple[int, ...], history: History, scores: Tensor) -> Tensor:
    """The lengths that belong to the open sentences [B]."""
    return torch.tensor(lengths, device=scores.device)[history.sentences.to(scores.device)]
