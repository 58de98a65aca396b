"""Tokens that may not be said, and tokens that must."""
# N sentences, B of them still open, W hypotheses of each, V vocabulary, T tokens so far, P longest prefix

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["IMPOSSIBLE", "Constraints", "Rule", "Said"]

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
