"""Phrases that an answer has to contain.

A rule holds </s> back until all are said and keeps as much room as they need. A choice shares the beam among
hypotheses that have said more and less of them, so that they are said where they fit (after Post and Vilar 2018,
dynamic beam allocation).
"""
# B sentences still open, W hypotheses of each, V vocabulary

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.search.beam import best_candidates
from antiphon.search.constraints import IMPOSSIBLE, Said

__all__ = ["Banks", "Phrases", "Required", "contains"]

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Phrases:
    """What has to be said, in any order."""

    phrases: tuple[Tokens, ...]

    def missing(self, said: Tokens) -> list[Tokens]:
        """Phrases that do not stand in it."""
        return [phrase for phrase in self.phrases if not contains(said, phrase)]

    def begun(self, said: Tokens) -> tuple[Tokens, int]:
        """Of those that are missing the one furthest begun at the end of what was said, and how far; () if none is."""
        missing = self.missing(said)
        if not missing:
            return (), 0
        far = [max(_at_the_end(said, phrase)) for phrase in missing]
        place = far.index(max(far))
        return missing[place], far[place]

    def open(self, said: Tokens) -> int:
        """Tokens that are still to be said, one phrase after the other; fewer will do where phrases overlap."""
        return sum(map(len, self.missing(said))) - self.begun(said)[1]

    def next(self, said: Tokens) -> set[int]:
        """Tokens that bring a phrase further."""
        return {phrase[far] for phrase in self.missing(said) for far in _at_the_end(said, phrase)}


def _at_the_end(said: Tokens, phrase: Tokens) -> list[int]:
    """How much of the beginning of a phrase stands at the end of what was said; there may be several answers, as 0."""
    return [n for n in range(len(phrase)) if said[len(said) - n :] == phrase[:n]]


def contains(said: Tokens, phrase: Tokens) -> bool:
    """Whether a phrase stands in what was said."""
    return any(said[first : first + len(phrase)] == phrase for first in range(len(said) - len(phrase) + 1))


@dataclass(frozen=True)
class Required:
    """No </s> before all phrases are said, and nothing after which they would not fit into `lengths` (with </s>)."""

    phrases: Phrases
    end: int
    lengths: tuple[int, ...]  # one for each sentence

    def forbid(self, scores: Tensor, said: Said) -> None:
        for row, sentence in enumerate(said.sentences.tolist()):
            left = self.lengths[sentence] - 1 - said.length
            for slot, tokens in enumerate(map(tuple, said.tokens[row].tolist())):
                missing = self.phrases.missing(tokens)
                if missing and self.end >= 0:  # a stream has no end
                    scores[row, slot, self.end] = IMPOSSIBLE
                if missing and sum(map(len, missing)) >= left:  # no room for a token that breaks off what was begun
                    _only(scores[row, slot], self._fitting(tokens, left - 1))

    def _fitting(self, said: Tokens, left: int) -> list[int]:
        """Tokens after which the rest fits; if there are none, those after which the least is left."""
        after = {token: self.phrases.open((*said, token)) for token in self.phrases.next(said)}
        return [token for token, needed in after.items() if needed <= max(left, min(after.values()))]


def _only(scores: Tensor, tokens: list[int]) -> None:
    own = scores[tokens].clone()
    scores.fill_(IMPOSSIBLE)
    scores[tokens] = own


@dataclass(frozen=True)
class Banks:
    """Candidates by how much of the phrases they have said, a bank for each; the banks give their best in turn.

    In the banks are the `size` best candidates and all that bring a phrase further. How many are asked for, which may
    depend on other sentences or on an observer, does not change their order.
    """

    phrases: Phrases
    size: int

    def places(self, totals: Tensor, log_probs: Tensor, said: Said, count: int) -> Tensor:
        """In turn, from the bank that has said the most; then the others by score; what is impossible comes last."""
        flat, V = (totals.unsqueeze(2) + log_probs).flatten(1), log_probs.size(2)
        best = best_candidates(flat, min(max(count, self.size), flat.size(1)))[1].tolist()
        rows = []
        for row, places in enumerate(best):
            tokens = [tuple(one) for one in said.tokens[row].tolist()]
            more = [slot * V + token for slot, one in enumerate(tokens) for token in sorted(self.phrases.next(one))]
            seen = list(dict.fromkeys([*places[: self.size], *more]))
            values = zip(flat[row, seen].tolist(), seen, strict=True)
            possible = sorted((-value, place) for value, place in values if value > IMPOSSIBLE)
            ordered = self._in_turn({place: (*tokens[place // V], place % V) for _, place in possible})
            rows.append(list(dict.fromkeys([*ordered, *places]))[:count])
        return torch.tensor(rows, device=log_probs.device)

    def _in_turn(self, candidates: dict[int, Tokens]) -> list[int]:
        """The places, best first, are dealt from the banks round after round."""
        banks: dict[int, list[int]] = defaultdict(list)
        for place, tokens in candidates.items():
            banks[self.phrases.open(tokens)].append(place)
        ranked = [(turn, needed, place) for needed, bank in banks.items() for turn, place in enumerate(bank)]
        return [place for *_, place in sorted(ranked)]
