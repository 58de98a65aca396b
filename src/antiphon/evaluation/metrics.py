"""Metrics: statistics of each sentence, and the value of their sum.

Outputs are texts; each has one or more references, and the best of them counts. Values are percent.
"""
# N sentences, d statistics

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
import regex
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq, Levenshtein
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from antiphon.registry import registered

__all__ = [
    "HIGHER_IS_BETTER", "METRICS", "Metric", "References", "SacrebleuMetric", "Statistics", "bleu", "bleu_1",
    "bleu_2", "bleu_3", "cer", "characters", "chrf", "exact_match", "higher_is_better", "metric_for", "per",
    "rouge_1", "rouge_2", "rouge_l", "span_f1", "spans", "ter", "token_accuracy", "token_error_rate", "wer", "words",
]  # fmt: skip

Statistics = NDArray[np.float64]
References = Sequence[tuple[str, ...]]
"""One or more correct outputs for each sentence."""
Segment = Callable[[str], list[str]]
"""Splits a text into the units that are compared."""
Compare = Callable[[list[int], list[int]], tuple[float, float, float]]
"""Units of an output and a reference, as numbers → merit of the reference, first statistic, second statistic."""

_CLUSTER = regex.compile(r"\X")
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")


@dataclass(frozen=True)
class Metric:
    """A number for a whole set of outputs that depends only on the sum of per-sentence statistics."""

    name: str
    higher_is_better: bool
    statistics: Callable[[Sequence[str], References], Statistics]  # → [N, d]
    value: Callable[[Statistics], Statistics]  # sums [..., d] → [...]
    signature: Callable[[References], str]  # the settings, for the report

    def __call__(self, outputs: Sequence[str], references: References) -> float:
        """The value over all sentences; 0 if there are none."""
        return float(self.value(self.checked_statistics(outputs, references).sum(axis=0)))

    def checked_statistics(self, outputs: Sequence[str], references: References) -> Statistics:
        """`statistics` [N, d]; ValueError unless every output has a reference."""
        if len(outputs) != len(references):
            raise ValueError(f"{self.name}: {len(outputs)} outputs for {len(references)} sets of references")
        for number, texts in enumerate(references):
            if isinstance(texts, str) or not texts:
                raise ValueError(f"{self.name}: sentence {number} needs a tuple of references, got {texts!r}")
        return self.statistics(outputs, references)


# Units.


def words(text: str) -> list[str]:
    """The words between white space."""
    return text.split()


def characters(text: str) -> list[str]:
    """The grapheme clusters: what a reader calls a character."""
    return list(_CLUSTER.findall(text))


def _rouge_words(text: str) -> list[str]:
    """Runs of letters and digits in lower case: for English the words of the rouge_score package, not stemmed."""
    return list(_WORD.findall(text.lower()))


def spans(text: str) -> list[str]:
    """The spans of BIO labels (also BIOES) with their places, as `2-4 PER`; an I of another kind begins a new span."""
    found: list[tuple[int, int, str]] = []
    inside = False  # the label before belongs to the last span, which goes on
    for place, label in enumerate(text.split()):
        mark, _, kind = label.partition("-")
        if mark not in ("B", "I", "E", "S"):
            inside = False
            continue
        if inside and mark in ("I", "E") and found[-1][2] == kind:
            found[-1] = (found[-1][0], place, kind)
        else:
            found.append((place, place, kind))
        inside = mark in ("B", "I")
    return [f"{first}-{last} {kind}" for first, last, kind in found]


def _whole(text: str) -> list[str]:
    return [text]


# Comparisons of an output with one reference.


def _edit_distance(output: list[int], reference: list[int]) -> tuple[float, float, float]:
    """The best reference has the lowest error rate, then the greatest length; statistics: edits, reference length."""
    distance, length = Levenshtein.distance(output, reference), len(reference)
    rate = distance / length if length else float("inf") if distance else 0.0
    return -rate, distance, length


def _equal_positions(output: list[int], reference: list[int]) -> tuple[float, float, float]:
    """Statistics: positions with equal units, length of the longer one."""
    equal, longest = sum(map(int.__eq__, output, reference)), max(len(output), len(reference))
    if longest == 0:  # an empty output is right if the reference is empty
        equal = longest = 1
    return equal / longest, equal, longest


def _equal(output: list[int], reference: list[int]) -> tuple[float, float, float]:
    return _mean_of(float(output == reference))


def _longest_common_subsequence(output: list[int], reference: list[int]) -> tuple[float, float, float]:
    """F1 = 2 |lcs| / (|output| + |reference|)"""
    return _mean_of(_f1(LCSseq.similarity(output, reference), len(output) + len(reference)))


def _common_ngrams(n: int) -> Compare:
    """F1 = 2 |common| / (|of the output| + |of the reference|) of n-grams, each with its multiplicity."""

    def compare(output: list[int], reference: list[int]) -> tuple[float, float, float]:
        ours, theirs = (Counter(zip(*(units[k:] for k in range(n)), strict=False)) for units in (output, reference))
        return _mean_of(_f1((ours & theirs).total(), ours.total() + theirs.total()))

    return compare


def _common_spans(output: list[int], reference: list[int]) -> tuple[float, float, float]:
    """Statistics: 2 |common|, |of the output| + |of the reference|."""
    common, total = len(set(output) & set(reference)), len(output) + len(reference)
    return (2.0 * common / total if total else 1.0), 2.0 * common, total


def _mean_of(value: float) -> tuple[float, float, float]:
    """A value of which the metric is the mean over sentences."""
    return value, value, 1.0


def _f1(common: int, total: int) -> float:
    """0 if both sides are empty, as in the rouge_score package."""
    return 2.0 * common / total if total else 0.0


def _comparison(name: str, compare: Compare, segment: Segment, units: str, *, higher_is_better: bool) -> Metric:
    """A metric that is 100 · Σ first / Σ second statistic; `units` describes it in its signature."""

    def statistics(outputs: Sequence[str], references: References) -> Statistics:
        return _best_statistics(outputs, references, segment, compare)

    def signature(references: References) -> str:
        counts = {len(texts) for texts in references}
        return f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}|{units}"

    return Metric(name, higher_is_better, statistics, _percentage, signature)


def _best_statistics(outputs: Sequence[str], references: References, segment: Segment, compare: Compare) -> Statistics:
    """[N, 2]: the statistics of each output against the reference with the highest (merit, second statistic)."""
    numbers: dict[str, int] = {}  # equal units, equal numbers: compared fast and without hash collisions

    def numbered(units: Iterable[str]) -> list[int]:
        return [numbers.setdefault(unit, len(numbers)) for unit in units]

    rows = np.zeros((len(outputs), 2), dtype=np.float64)
    for row, output, texts in zip(rows, outputs, references, strict=True):
        units = numbered(segment(output))
        compared = [compare(units, numbered(segment(text))) for text in texts]
        row[:] = max(compared, key=lambda values: (values[0], values[2]))[1:]
    return rows


def _percentage(sums: Statistics) -> Statistics:
    """100 · first / second; if the second is 0, it is 0 or, with something to count, 100."""
    counted, total = sums[..., 0], sums[..., 1]
    empty = np.where(counted > 0, 100.0, 0.0)
    return np.asarray(np.where(total > 0, 100.0 * counted / np.where(total > 0, total, 1.0), empty))


# BLEU, chrF and TER as sacrebleu computes them.


class SacrebleuMetric:
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
        # sacrebleu takes the first references of all sentences, the second of all, ...; None if there are no more
        transposed = list(zip_longest(*references, fillvalue=None))
        return np.array(self._scorer()._extract_corpus_statistics(outputs, transposed), dtype=np.float64)

    def value(self, sums: Statistics) -> Statistics:
        """Summed statistics [..., d] → scores [...]."""
        scorer = self._scorer()
        flat = sums.reshape(-1, sums.shape[-1])
        scores = [scorer._compute_score_from_stats(row).score for row in flat.tolist()]
        return np.array(scores, dtype=np.float64).reshape(sums.shape[:-1])

    def signature(self, references: References) -> str:
        """sacrebleu's own description of its settings."""
        scorer = self._scorer()
        counts = {len(texts) for texts in references}
        scorer.num_refs = counts.pop() if len(counts) == 1 else -1  # -1: sacrebleu's mark for "it varies"
        return str(scorer.get_signature())

    def _scorer(self) -> Any:  # noqa: ANN401  (sacrebleu has no types)
        if self.kind == "bleu":
            # force: no advice about tokenised text in the middle of our output
            return BLEU(max_ngram_order=self.order, force=True)
        return CHRF() if self.kind == "chrf" else TER()

    def metric(self, name: str, *, higher_is_better: bool) -> Metric:
        return Metric(name, higher_is_better, self.statistics, self.value, self.signature)


# The metrics.

exact_match = _comparison("exact_match", _equal, _whole, "whole texts", higher_is_better=True)
"""Share of outputs that equal a reference. In dictionary tasks such as g2p, "WER" is 100 - exact_match."""

token_accuracy = _comparison(
    "token_accuracy", _equal_positions, words, "words at equal positions / length", higher_is_better=True
)
"""Share of positions where output and reference have the same word."""

span_f1 = _comparison(
    "span_f1", _common_spans, spans, "2 common spans / spans of both sides, BIO labels", higher_is_better=True
)
"""F1 of the spans that BIO labels mark, over all sentences together, as conlleval computes it."""

cer = _comparison("cer", _edit_distance, characters, "edits of grapheme clusters / length", higher_is_better=False)
"""Character error rate: edits / reference length, over grapheme clusters."""

wer = _comparison("wer", _edit_distance, words, "edits of words / length", higher_is_better=False)
"""Word error rate: edits / reference length, over white-space words."""

token_error_rate = _comparison(
    "token_error_rate", _edit_distance, words, "edits of tokens / length", higher_is_better=False
)
"""Token error rate: the same over the symbols of any notation, which are separated by spaces."""

per = _comparison("per", _edit_distance, words, "edits of phones / length", higher_is_better=False)
"""Phoneme error rate: the token error rate of pronunciations."""

_ROUGE = "F1 of lower-cased words without punctuation, not stemmed"
rouge_1 = _comparison("rouge_1", _common_ngrams(1), _rouge_words, _ROUGE, higher_is_better=True)
rouge_2 = _comparison("rouge_2", _common_ngrams(2), _rouge_words, _ROUGE, higher_is_better=True)
"""ROUGE-1, ROUGE-2: mean F1 of words and of word bigrams, ignoring case and punctuation. Without a stemmer the values
are a little lower than those of papers that stem."""

rouge_l = _comparison("rouge_l", _longest_common_subsequence, _rouge_words, _ROUGE, higher_is_better=True)
"""ROUGE-L: mean F1 of the longest common subsequence of the same words."""

bleu_1, bleu_2, bleu_3 = (SacrebleuMetric("bleu", n).metric(f"bleu_{n}", higher_is_better=True) for n in (1, 2, 3))
"""BLEU-n of captioning papers: brevity penalty x geometric mean of the precisions of 1-grams to n-grams."""

bleu = SacrebleuMetric("bleu").metric("bleu", higher_is_better=True)
"""The same up to n = 4."""

chrf = SacrebleuMetric("chrf").metric("chrf", higher_is_better=True)
ter = SacrebleuMetric("ter").metric("ter", higher_is_better=False)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        exact_match, token_accuracy, span_f1, token_error_rate, cer, wer, per, bleu, bleu_1, bleu_2, bleu_3, chrf, ter,
        rouge_1, rouge_2, rouge_l,
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
    """The variant of a metric for targets of these tokens (characters, letters, words, bpe, unigram).

    Characters and letters: token_accuracy and token_error_rate compare grapheme clusters. Words: exact_match compares
    words, because such a model cannot say how wide the white space between them is.
    """
    if name == "token_accuracy" and tokens in ("characters", "letters"):
        units = "grapheme clusters at equal positions / length"
        return _comparison(name, _equal_positions, characters, units, higher_is_better=True)
    if name == "token_error_rate" and tokens in ("characters", "letters"):
        units = "edits of grapheme clusters / length"
        return _comparison(name, _edit_distance, characters, units, higher_is_better=False)
    if name == "exact_match" and tokens == "words":
        return _comparison(name, _equal, words, "whole texts, word by word", higher_is_better=True)
    return METRICS[name] if name in METRICS else _registered_metric(name)


def _registered_metric(name: str) -> Metric:
    """A metric from outside the package: a Metric, or the mean of a function of an output and its references."""
    found = registered("metric", name)
    if isinstance(found.part, Metric):
        return found.part

    def statistics(outputs: Sequence[str], references: References) -> Statistics:
        values = [float(found.part(output, texts)) for output, texts in zip(outputs, references, strict=True)]
        return np.stack([np.array(values, dtype=np.float64), np.ones(len(values))], axis=1)

    def mean(sums: Statistics) -> Statistics:
        return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1.0))

    def signature(_: References) -> str:
        return f"mean of {found.module}.{found.part.__qualname__}"

    return Metric(name, found.higher_is_better, statistics, mean, signature)


def higher_is_better(name: str) -> bool:
    """True of an accuracy, False of an error rate or a loss."""
    return HIGHER_IS_BETTER[name] if name in HIGHER_IS_BETTER else registered("metric", name).higher_is_better
