"""Phrases that an answer has to contain, by dynamic beam allocation (after Post and Vilar 2018).

A constraint holds </s> back until all phrases have occurred and keeps enough positions for them. A ranking divides the
beam among hypotheses by how much of the phrases they contain, so that phrases occur where they fit.
"""
# B open sentences, W hypotheses of each, V vocabulary

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.search.constraints import IMPOSSIBLE, History
from antiphon.search.hypothesis import stable_topk

__all__ = ["DynamicBeamAllocation", "PhraseConstraint", "RequiredPhrases", "contains"]

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class RequiredPhrases:
    """Phrases that have to occur, in any order."""

    phrases: tuple[Tokens, ...]

    def missing(self, tokens: Tokens) -> list[Tokens]:
        """Phrases that do not occur in the tokens."""
        return [phrase for phrase in self.phrases if not contains(tokens, phrase)]

    def remaining(self, tokens: Tokens) -> int:
        """The number of tokens still to come, one phrase after the other; overlapping phrases may need fewer."""
        missing = self.missing(tokens)
        begun = max((max(_begun(tokens, phrase)) for phrase in missing), default=0)
        return sum(map(len, missing)) - begun

    def continuations(self, tokens: Tokens) -> set[int]:
        """Tokens that begin or continue a missing phrase."""
        return {phrase[length] for phrase in self.missing(tokens) for length in _begun(tokens, phrase)}


def _begun(tokens: Tokens, phrase: Tokens) -> list[int]:
    """The lengths, 0 among them, of the beginnings of a phrase that stand at the end of the tokens."""
    return [n for n in range(len(phrase)) if tokens[len(tokens) - n :] == phrase[:n]]


def contains(tokens: Tokens, phrase: Tokens) -> bool:
    """True if the phrase occurs in the tokens."""
    return any(tokens[first : first + len(phrase)] == phrase for first in range(len(tokens) - len(phrase) + 1))


@dataclass(frozen=True)
class PhraseConstraint:
    """No </s> before all phrases have occurred, and no token after which they would not fit into `lengths`."""

    phrases: RequiredPhrases
    end: int
    lengths: tuple[int, ...]  # one for each sentence; </s> counts

    def apply(self, scores: Tensor, history: History) -> None:
        for row, sentence in enumerate(history.sentences.tolist()):
            left = self.lengths[sentence] - 1 - history.length
            for slot, tokens in enumerate(map(tuple, history.tokens[row].tolist())):
                missing = self.phrases.missing(tokens)
                if missing and self.end >= 0:  # a stream has no end
                    scores[row, slot, self.end] = IMPOSSIBLE
                if missing and sum(map(len, missing)) >= left:  # no position left for a token that breaks a phrase off
                    _forbid_others(scores[row, slot], self._fitting(tokens, left - 1))

    def _fitting(self, tokens: Tokens, left: int) -> list[int]:
        """Tokens after which the rest fits; if there are none, those that leave the least."""
        after = {token: self.phrases.remaining((*tokens, token)) for token in self.phrases.continuations(tokens)}
        return [token for token, remaining in after.items() if remaining <= max(left, min(after.values()))]


def _forbid_others(scores: Tensor, tokens: list[int]) -> None:
    own = scores[tokens].clone()
    scores.fill_(IMPOSSIBLE)
    scores[tokens] = own


@dataclass(frozen=True)
class DynamicBeamAllocation:
    """Ranking by banks: candidates with equally many remaining tokens share a bank, and the banks take turns.

    The banks hold the `size` best candidates and all that continue a phrase. Their order does not depend on `count`,
    which may depend on other sentences or on an observer.
    """

    phrases: RequiredPhrases
    size: int

    def rank(self, totals: Tensor, log_probs: Tensor, history: History, count: int) -> Tensor:
        """The banks in turn, fewest remaining tokens first; then the others by score; impossible ones last."""
        flat, V = (totals.unsqueeze(2) + log_probs).flatten(1), log_probs.size(2)
        best = stable_topk(flat, min(max(count, self.size), flat.size(1)))[1].tolist()
        rows = []
        for row, by_score in enumerate(best):
            tokens = [tuple(slot) for slot in history.tokens[row].tolist()]
            continuing = [
                slot * V + token for slot, own in enumerate(tokens) for token in sorted(self.phrases.continuations(own))
            ]
            banked = list(dict.fromkeys([*by_score[: self.size], *continuing]))
            values = zip(flat[row, banked].tolist(), banked, strict=True)
            possible = sorted((-value, index) for value, index in values if value > IMPOSSIBLE)
            ordered = self._take_turns({index: (*tokens[index // V], index % V) for _, index in possible})
            rows.append(list(dict.fromkeys([*ordered, *by_score]))[:count])
        return torch.tensor(rows, device=log_probs.device)

    def _take_turns(self, candidates: dict[int, Tokens]) -> list[int]:
        """Candidates, best first, dealt from the banks round by round."""
        banks: dict[int, list[int]] = defaultdict(list)
        for index, tokens in candidates.items():
            banks[self.phrases.remaining(tokens)].append(index)
        ranked = [(turn, remaining, index) for remaining, bank in banks.items() for turn, index in enumerate(bank)]
        return [index for *_, index in sorted(ranked)]
