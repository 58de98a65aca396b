"""Every metric as a value: what it needs of each sentence, and what the sums of that are worth.

Outputs are texts; each has one or more references, and the best of them counts. Values are percent.
"""
# N sentences, d statistics

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from antiphon.evaluation import edit
from antiphon.evaluation.edit import References, Statistics

__all__ = [
    "HIGHER_IS_BETTER",
    "METRICS",
    "Metric",
    "References",
    "Standard",
    "Statistics",
    "bleu",
    "bleu_1",
    "bleu_2",
    "bleu_3",
    "cer",
    "chrf",
    "exact_match",
    "metric_for",
    "per",
    "rouge_1",
    "rouge_2",
    "rouge_l",
    "ter",
    "token_accuracy",
    "wer",
]

# BLEU, chrF and TER as sacrebleu computes them, with their statistics per sentence.


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


ROUGE_WORDS = "F1 of lower-cased words without punctuation, not stemmed"


@dataclass(frozen=True)
class Metric:
    """A number for a whole set of answers that depends only on the sum of per-sentence statistics."""

    name: str
    higher_is_better: bool
    statistics: Callable[[Sequence[str], References], Statistics]  # → [N, d]
    value: Callable[[Statistics], Statistics]  # sums [..., d] → [...]
    signature: Callable[[References], str]  # how it was computed, for the report

    def __call__(self, outputs: Sequence[str], references: References) -> float:
        """The value over all sentences; 0 if there are none."""
        return float(self.value(self.checked_statistics(outputs, references).sum(axis=0)))

    def checked_statistics(self, outputs: Sequence[str], references: References) -> Statistics:
        """`statistics` [N, d], after making sure that every output has a reference."""
        if len(outputs) != len(references):
            raise ValueError(f"{self.name}: {len(outputs)} outputs for {len(references)} sets of references")
        for number, texts in enumerate(references):
            if isinstance(texts, str) or not texts:
                raise ValueError(f"{self.name}: sentence {number} needs a tuple of references, got {texts!r}")
        return self.statistics(outputs, references)


def _share(sums: Statistics) -> Statistics:
    """100 x first / second; out of nothing it is 0 if there is nothing to count and 100 otherwise."""
    counted, total = sums[..., 0], sums[..., 1]
    empty = np.where(counted > 0, 100.0, 0.0)
    return np.asarray(np.where(total > 0, 100.0 * counted / np.where(total > 0, total, 1.0), empty))


def _compared(
    name: str,
    statistics: Callable[[Sequence[str], References, edit.Cut], Statistics],
    cut: edit.Cut,
    description: str,
    *,
    higher_is_better: bool,
) -> Metric:
    def of_sentences(outputs: Sequence[str], references: References) -> Statistics:
        return statistics(outputs, references, cut)

    def signature(references: References) -> str:
        counts = {len(texts) for texts in references}
        return f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}|{description}"

    return Metric(name, higher_is_better, of_sentences, _share, signature)


def _standard(kind: Literal["bleu", "chrf", "ter"], *, higher_is_better: bool) -> Metric:
    standard = Standard(kind)
    return Metric(kind, higher_is_better, standard.statistics, standard.value, standard.signature)


def _bleu(n: int) -> Metric:
    standard = Standard("bleu", n)
    return Metric(f"bleu_{n}", True, standard.statistics, standard.value, standard.signature)


def _rouge(n: int) -> Metric:
    def ngrams(outputs: Sequence[str], references: References, cut: edit.Cut) -> Statistics:
        return edit.common_ngrams(outputs, references, cut, n)

    return _compared(f"rouge_{n}", ngrams, edit.lower_words, ROUGE_WORDS, higher_is_better=True)


def _whole(text: str) -> list[str]:
    return [text]


exact_match = _compared("exact_match", edit.same, _whole, "whole texts", higher_is_better=True)
"""Share of outputs that equal a reference. In dictionary tasks such as g2p, "WER" is 100 - exact_match."""

token_accuracy = _compared(
    "token_accuracy", edit.equal_positions, edit.words, "words at equal positions / length", higher_is_better=True
)
"""Share of positions where output and reference have the same word."""

cer = _compared("cer", edit.edits, edit.characters, "edits of grapheme clusters / length", higher_is_better=False)
"""Character error rate: edits / reference length, over grapheme clusters."""

wer = _compared("wer", edit.edits, edit.words, "edits of words / length", higher_is_better=False)
"""Word error rate: edits / reference length, over white-space words."""

per = _compared("per", edit.edits, edit.words, "edits of phones / length", higher_is_better=False)
"""Phone error rate: the same over phones, which stand between spaces."""

rouge_1, rouge_2 = _rouge(1), _rouge(2)
"""ROUGE-1, ROUGE-2: mean F1 of words and of pairs of words. Case and punctuation do not count; endings do (there is no
stemmer), so that the values are a little lower than those of papers that stem."""

rouge_l = _compared("rouge_l", edit.longest_common, edit.lower_words, ROUGE_WORDS, higher_is_better=True)
"""ROUGE-L: mean F1 of the longest common subsequence of the same words."""

bleu_1, bleu_2, bleu_3 = _bleu(1), _bleu(2), _bleu(3)
"""BLEU-n of captioning papers: brevity penalty x geometric mean of the precisions of 1-grams to n-grams."""

bleu = _standard("bleu", higher_is_better=True)
"""The same up to n = 4."""

chrf = _standard("chrf", higher_is_better=True)
ter = _standard("ter", higher_is_better=False)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        exact_match, token_accuracy, cer, wer, per, bleu, bleu_1, bleu_2, bleu_3, chrf, ter, rouge_1, rouge_2, rouge_l,
    )
}  # fmt: skip

HIGHER_IS_BETTER: dict[str, bool] = {
    "loss": False,
    "perplexity": False,
    "word_perplexity": False,
    "bits_per_character": False,
    **{name: metric.higher_is_better for name, metric in METRICS.items()},
}


def metric_for(name: str, tokens: str) -> Metric:
    """The metric as it fits a target cut into these tokens (characters, letters, words, bpe, unigram).

    Characters and letters: token_accuracy compares grapheme clusters. Words: exact_match compares words, because a
    model of words has no say in the width of the white space between them.
    """
    if name == "token_accuracy" and tokens in ("characters", "letters"):
        text = "grapheme clusters at equal positions / length"
        return _compared(name, edit.equal_positions, edit.characters, text, higher_is_better=True)
    if name == "exact_match" and tokens == "words":
        return _compared(name, edit.same, edit.words, "whole texts, word by word", higher_is_better=True)
    return METRICS[name]
