"""Diverse beam search (Vijayakumar et al. 2016): groups of beams, each penalised for tokens of the groups before it."""
# V vocabulary

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch

from antiphon.search.beam import Beam, BeamPolicy
from antiphon.search.hypothesis import Hypothesis, SearchRequest, StepFunction
from antiphon.sequence import State

__all__ = ["Diversity", "diverse_search"]

S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Diversity:
    """The number of groups, and the penalty of a token for each group before that selected it at the same step."""

    groups: int
    strength: float


def diverse_search(
    step: StepFunction[S],
    state: S,
    request: SearchRequest,
    *,
    policy: BeamPolicy,
    diversity: Diversity,
    vocabulary: int,
) -> list[list[Hypothesis]]:
    """The hypotheses of all groups, best first; `policy` is that of one group. Scores are the model's own."""
    beams = [Beam(state, request, policy) for _ in range(diversity.groups)]
    with torch.no_grad():
        for position in range(request.max_length):
            if all(beam.done for beam in beams):
                break
            if request.check is not None:
                request.check()
            penalty = torch.zeros(request.sentences, vocabulary)
            for beam in beams:
                if not beam.done:
                    sentences, candidates = beam.advance(step, position, bonus=-penalty)
                    rows = sentences.unsqueeze(1).expand_as(candidates.tokens)[candidates.selected]
                    strength = torch.full(rows.shape, diversity.strength)
                    penalty.index_put_((rows, candidates.tokens[candidates.selected]), strength, accumulate=True)
    found = zip(*(beam.hypotheses() for beam in beams), strict=True)
    return [_merge(groups) for groups in found]


def _merge(groups: tuple[list[Hypothesis], ...]) -> list[Hypothesis]:
    """Each hypothesis once, finished before unfinished, then by score."""
    unique = {hypothesis.tokens: hypothesis for hypotheses in groups for hypothesis in hypotheses}
    return sorted(unique.values(), key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
