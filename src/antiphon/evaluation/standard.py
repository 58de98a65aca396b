"""BLEU, chrF and TER as sacrebleu computes them, with their statistics per sentence."""
# N sentences, d statistics

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from antiphon.evaluation.edit import References, Statistics

__all__ = ["Standard"]


class Standard:
    """One of sacrebleu's metrics with its default settings, BLEU also with shorter n-grams.

    sacrebleu resamples the same per-sentence sums itself, but gives them no public name; a test binds ours to its
    corpus_score.
    """

    def __init__(self, kind: Literal["bleu", "chrf", "ter"], order: int = 4) -> None:
        self.kind = kind
        self.order = order  # of BLEU: the longest n-grams

    def statistics(self, outputs: Sequence[str], references: References) -> Statistics:
        """[N, d]"""
        if not outputs:
            return np.zeros((0, len(self._scorer()._extract_corpus_statistics([""], [[""]])[0])))
        rows = self._scorer()._extract_corpus_statistics(outputs, _streams(references))
        return np.array(rows, dtype=np.float64)

    def value(self, sums: Statistics) -> Statistics:
        """Summed statistics [..., d] → scores [...]."""
        scorer = self._scorer()
        flat = sums.reshape(-1, sums.shape[-1])
        scores = [scorer._compute_score_from_stats(row).score for row in flat.tolist()]
        return np.array(scores, dtype=np.float64).reshape(sums.shape[:-1])

    def signature(self, references: References) -> str:
        """sacrebleu's own description of how the number was made."""
        scorer = self._scorer()
        counts = {len(texts) for texts in references}
        scorer.num_refs = counts.pop() if len(counts) == 1 else -1  # -1: sacrebleu's mark for "it varies"
        return str(scorer.get_signature())

    def _scorer(self) -> Any:  # noqa: ANN401  (sacrebleu has no types)
        if self.kind == "bleu":
            # force: no advice about tokenised text in the middle of our output
            return BLEU(max_ngram_order=self.order, force=True)
        return CHRF() if self.kind == "chrf" else TER()


def _streams(references: References) -> list[tuple[str | None, ...]]:
    """First references of all sentences, second references of all, ...; None where a sentence has no more."""
    return list(zip_longest(*references, fillvalue=None))
