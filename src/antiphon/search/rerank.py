"""Other orders among the answers that a search has found."""
# T target steps, S source steps

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from antiphon.search.hypothesis import Hypothesis

__all__ = ["Reranker", "by_coverage", "by_expected_utility", "by_joint_score"]

WHOLE = 100.0  # what a text has in common with itself
LEAST = 1e-9  # attention to a source token; its logarithm has to be a number


def coverage_penalty(weights: np.ndarray) -> float:
    """cp = Σ_j log min(Σ_i a_ij, 1): 0 where each source token got its whole share (Wu et al. 2016)."""
    return float(np.log(np.clip(weights.sum(axis=0), LEAST, 1.0)).sum())


def by_coverage(found: list[Hypothesis], weights: list[np.ndarray], strength: float) -> list[Hypothesis]:
    """By score + strength · cp, finished answers first; the scores stay the model's own."""
    value = {id(one): one.score + strength * coverage_penalty(seen) for one, seen in zip(found, weights, strict=True)}
    return sorted(found, key=lambda one: (not one.finished, -value[id(one)]))


class Reranker(Protocol):
    """A second model that orders the hypotheses of a beam anew."""

    def rerank(
        self, source: list[int], hypotheses: list[Hypothesis], *, weight: float, length_penalty: float
    ) -> list[Hypothesis]:
        """The hypotheses of one source in a new order; their scores stay the first model's own."""
        ...

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        ...


def by_joint_score(
    hypotheses: list[Hypothesis], log_probs: list[float | None], weight: float, length_penalty: float
) -> list[Hypothesis]:
    """Order by log p(y | x) + weight · log q(x, y), where `log_probs` are those of q.

    A hypothesis without log q(x, y), or unfinished, keeps its place; the others share the places that are left.
    """
    places = [place for place, one in enumerate(hypotheses) if one.finished and log_probs[place] is not None]
    values = {
        place: hypotheses[place].score * len(hypotheses[place].tokens) ** length_penalty
        + weight * (log_probs[place] or 0.0)
        for place in places
    }
    ordered = list(hypotheses)
    for place, chosen in zip(places, sorted(places, key=lambda place: -values[place]), strict=True):
        ordered[place] = hypotheses[chosen]
    return ordered


def by_expected_utility(texts: list[str], utility: Literal["chrf", "bleu"]) -> list[int]:
    """The places of texts, first the one most like all the others: minimum Bayes risk, each text being one sample.

    Equal texts count as often as they were drawn; equal utilities: the one drawn first.
    """
    from sacrebleu.metrics.bleu import BLEU  # here alone: it takes longer to load than all of search
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF() if utility == "chrf" else BLEU(effective_order=True)
    known: dict[tuple[str, str], float] = {}

    def like(answer: str, other: str) -> float:
        if answer == other:
            return WHOLE  # the metrics give two empty texts 0
        if (answer, other) not in known:
            known[answer, other] = metric.sentence_score(answer, [other]).score
        return known[answer, other]

    means = [sum(like(answer, other) for other in texts) for answer in texts]
    return sorted(range(len(texts)), key=lambda place: -means[place])
