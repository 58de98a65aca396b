"""Phrases that an answer has to contain.

A rule holds </s> back until all are said and, when there is only just room left for them, lets nothing else be said. A
choice shares the beam among hypotheses that have said more and less of them, so that they are said where they
fit (after Post and Vilar 2018, dynamic beam allocation).
"""
# B sentences still open, W hypotheses of each, V vocabulary

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.decoding.constraints import IMPOSSIBLE, Said
from antiphon.decoding.ranking import best_candidates

__all__ = ["Banks", "Phrases", "Required"]

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Phrases:
    """What has to be said, in any order."""

    phrases: tuple[Tokens, ...]

    def missing(self, said: Tokens) -> list[Tokens]:
        """Phrases that do not stand in it."""
        return [phrase for phrase in self.phrases if not _contains(said, phrase)]

    def begun(self, said: Tokens) -> tuple[Tokens, int]:
        """Of those that are missing the one furthest begun at the end of what was said, and how far; () if none is."""
        missing = self.missing(said)
        if not missing:
            return (), 0
        far = [max(n for n in range(len(phrase)) if said[len(said) - n :] == phrase[:n]) for phrase in missing]
        place = far.index(max(far))
        return missing[place], far[place]

    def open(self, said: Tokens) -> int:
        """Tokens that are still to be said."""
        return sum(map(len, self.missing(said))) - self.begun(said)[1]

    def next(self, said: Tokens) -> set[int]:
        """Tokens that bring a phrase further."""
        phrase, far = self.begun(said)
        return {missing[0] for missing in self.missing(said)} | ({phrase[far]} if phrase else set())


def _contains(said: Tokens, phrase: Tokens) -> bool:
    return any(said[first : first + len(phrase)] == phrase for first in range(len(said) - len(phrase) + 1))


@dataclass(frozen=True)
class Required:
    """No </s> before all phrases are said; nothing but them when an answer of `lengths` (with </s>) just holds them."""

    phrases: Phrases
    end: int
    lengths: tuple[int, ...]  # one for each sentence

    def forbid(self, scores: Tensor, said: Said) -> None:
        for row, sentence in enumerate(said.sentences.tolist()):
            left = self.lengths[sentence] - 1 - said.length
            for slot, tokens in enumerate(map(tuple, said.tokens[row].tolist())):
                needed = self.phrases.open(tokens)
                if needed:
                    scores[row, slot, self.end] = IMPOSSIBLE
                if needed and left <= needed:
                    phrase, far = self.phrases.begun(tokens)
                    own = scores[row, slot, phrase[far]].clone()
                    scores[row, slot] = IMPOSSIBLE
                    scores[row, slot, phrase[far]] = own


@dataclass(frozen=True)
class Banks:
    """Candidates by how much of the phrases they have said, a bank for each; the banks give their best in turn."""

    phrases: Phrases

    def places(self, scores: Tensor, said: Said, count: int) -> Tensor:
        """In turn, from the bank that has said the most; what is impossible comes last."""
        flat, V = scores.flatten(1), scores.size(2)
        best = best_candidates(flat, count)[1].tolist()
        rows = []
        for row, places in enumerate(best):
            tokens = [tuple(one) for one in said.tokens[row].tolist()]
            more = [slot * V + token for slot, one in enumerate(tokens) for token in sorted(self.phrases.next(one))]
            seen = [place for place in dict.fromkeys([*places, *more]) if float(flat[row, place]) > IMPOSSIBLE]
            seen.sort(key=lambda place: (-float(flat[row, place]), place))
            ordered = self._in_turn({place: (*tokens[place // V], place % V) for place in seen})
            rest = [place for place in places if place not in set(ordered)]
            rows.append([*ordered, *rest][:count])
        return torch.tensor(rows, device=scores.device)

    def _in_turn(self, candidates: dict[int, Tokens]) -> list[int]:
        """The places, best first, are dealt from the banks round after round."""
        banks: dict[int, list[int]] = defaultdict(list)
        for place, tokens in candidates.items():
            banks[self.phrases.open(tokens)].append(place)
        ranked = [(turn, needed, place) for needed, bank in banks.items() for turn, place in enumerate(bank)]
        return [place for *_, place in sorted(ranked)]
