"""Rules that take candidates out of a search, by what was said."""
# N sentences, B of them still open, W hypotheses of each, V vocabulary, T tokens so far, P longest prefix
# B sentences still open, W hypotheses of each, V vocabulary, T tokens so far

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = [
    "IMPOSSIBLE",
    "Constraints",
    "Forbidden",
    "ForbiddenPhrases",
    "LeastLength",
    "MostLength",
    "NoRepeat",
    "Rule",
    "Said",
]

# Tokens that may not be said, and tokens that must.

FREE = -1
IMPOSSIBLE = float("-inf")


@dataclass(frozen=True)
class Said:
    """What the open hypotheses have said so far."""

    sentences: Tensor  # [B] their numbers
    tokens: Tensor  # [B, W, T] without the token before the first

    @property
    def length(self) -> int:
        return self.tokens.size(2)


class Rule(Protocol):
    """Takes candidates out of the search."""

    def forbid(self, scores: Tensor, said: Said) -> None:
        """Writes -inf into scores [B, W, V], in place."""
        ...


class Constraints:
    """What rules forbid gets -inf; at a forced position every other token does.

    A forced token keeps its own log probability, even if a rule forbids it elsewhere.
    """

    def __init__(self, sentences: int, prefixes: list[list[int]] | None, rules: tuple[Rule, ...]) -> None:
        prefixes = prefixes if prefixes is not None else [[]] * sentences
        if len(prefixes) != sentences:
            raise ValueError(f"{len(prefixes)} prefixes for {sentences} sentences; give one (or an empty one) for each")
        self.longest = max((len(prefix) for prefix in prefixes), default=0)
        self.forced = torch.full((sentences, self.longest), FREE, dtype=torch.long)  # [N, P]
        for row, prefix in zip(self.forced, prefixes, strict=True):
            row[: len(prefix)] = torch.tensor(prefix, dtype=torch.long)
        self.rules = rules

    def apply(self, scores: Tensor, said: Said) -> None:
        """Writes -inf into scores [B, W, V], in place."""
        if said.length >= self.longest:
            self._forbid(scores, said)
            return
        forced = self.forced.to(scores.device)[said.sentences, said.length]  # [B]
        rows = (forced != FREE).nonzero().squeeze(1)
        tokens = forced[rows]
        own = scores[rows, :, tokens]  # [rows, W]
        self._forbid(scores, said)
        scores[rows] = IMPOSSIBLE
        scores[rows, :, tokens] = own

    def _forbid(self, scores: Tensor, said: Said) -> None:
        for rule in self.rules:
            rule.forbid(scores, said)


@dataclass(frozen=True)
class Forbidden:
    """Tokens that are never said."""

    tokens: tuple[int, ...]

    def forbid(self, scores: Tensor, said: Said) -> None:  # noqa: ARG002 (at no time)
        scores[:, :, list(self.tokens)] = IMPOSSIBLE


@dataclass(frozen=True)
class ForbiddenPhrases:
    """Tokens that are never said one after the other: the last of them is taken out where the others stand."""

    phrases: tuple[tuple[int, ...], ...]

    def forbid(self, scores: Tensor, said: Said) -> None:
        for *begun, last in self.phrases:
            if said.length >= len(begun):
                tail = said.tokens[:, :, said.length - len(begun) :]  # [B, W, len(begun)]
                here = (tail == tail.new_tensor(begun)).all(dim=2)
                scores[:, :, last].masked_fill_(here, IMPOSSIBLE)


@dataclass(frozen=True)
class LeastLength:
    """No </s> before an answer has so many tokens, </s> counted; one number for each sentence."""

    end: int
    lengths: tuple[int, ...]

    def forbid(self, scores: Tensor, said: Said) -> None:
        if self.end < 0 or said.length + 1 >= max(self.lengths, default=0):  # a stream has no end
            return
        short = (_of_sentences(self.lengths, said, scores) > said.length + 1).nonzero().squeeze(1)
        scores[short, :, self.end] = IMPOSSIBLE


@dataclass(frozen=True)
class MostLength:
    """Nothing more once an answer has so many tokens, </s> counted: it comes back as it is, unfinished.

    One number for each sentence.
    """

    lengths: tuple[int, ...]

    def forbid(self, scores: Tensor, said: Said) -> None:
        if said.length < min(self.lengths, default=0):
            return
        full = (_of_sentences(self.lengths, said, scores) <= said.length).nonzero().squeeze(1)
        scores[full] = IMPOSSIBLE


@dataclass(frozen=True)
class NoRepeat:
    """No n tokens twice in the same order."""

    n: int

    def forbid(self, scores: Tensor, said: Said) -> None:
        if said.length < self.n:
            return
        grams = said.tokens.unfold(2, self.n, 1)  # [B, W, T - n + 1, n]
        begun = said.tokens[:, :, said.length - self.n + 1 :].unsqueeze(2)  # the last n - 1
        rows, slots, places = (grams[..., :-1] == begun).all(dim=3).nonzero(as_tuple=True)
        scores[rows, slots, grams[rows, slots, places, -1]] = IMPOSSIBLE


def _of_sentences(lengths: tuple[int, ...], said: Said, scores: Tensor) -> Tensor:
    """The numbers of the sentences still open [B]."""
    return torch.tensor(lengths, device=scores.device)[said.sentences.to(scores.device)]
