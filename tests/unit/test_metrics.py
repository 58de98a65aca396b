"""Metrics on paper, against written-out loops, and against sacrebleu itself."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from antiphon.config import checks as text_config
from antiphon.config.schema import EvaluationConfig, TrainingConfig
from antiphon.evaluation.likelihood import LIKELIHOOD_METRICS
from antiphon.evaluation.metrics import (
    HIGHER_IS_BETTER,
    METRICS,
    bleu,
    bleu_1,
    bleu_2,
    bleu_3,
    cer,
    chrf,
    exact_match,
    metric_for,
    per,
    rouge_1,
    rouge_2,
    rouge_l,
    span_f1,
    spans,
    ter,
    token_accuracy,
    token_error_rate,
    wer,
)

WORDS = ["the", "cat", "sat", "on", "a", "mat", ".", "green", "witch"]


def distance(one: list[str], other: list[str]) -> int:
    """Levenshtein, as in the textbook."""
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        before, row = row, [i]
        for j, right in enumerate(other, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right)))
    return row[-1]


def common(one: list[str], other: list[str]) -> int:
    """Length of the longest common subsequence."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def test_exact_match_counts_any_reference() -> None:
    outputs = ["T AH M EY T OW", "R EH D", "x"]
    references = [("T AH M AA T OW", "T AH M EY T OW"), ("R IY D",), ("x",)]
    assert exact_match(outputs, references) == pytest.approx(200 / 3)


def test_exact_match_is_exact() -> None:
    assert exact_match(["a b"], [("a  b",)]) == 0
    assert exact_match(["a"], [("A",)]) == 0


def test_per_on_paper() -> None:
    # one substitution in 4 phones, one deletion in 2: 2 edits / 6 phones
    assert per(["K AE T S", "B"], [("K AE D S",), ("B IY",)]) == pytest.approx(100 * 2 / 6)


def test_wer_may_exceed_100() -> None:
    assert wer(["a b c"], [("x",)]) == pytest.approx(300)


def test_cer_counts_what_a_reader_calls_a_character() -> None:
    family = "👩\u200d👩\u200d👧"  # one cluster of five code points
    assert cer(["e\u0301t"], [("et",)]) == pytest.approx(50)
    assert cer([f"a{family}"], [("ab",)]) == pytest.approx(50)


def test_the_reference_with_the_lowest_rate_counts() -> None:
    # a b c x: 2 edits of 2 = 100 %; a b c d e f: 3 edits of 6 = 50 %, though it has more of them
    assert wer.statistics(["a b c x"], [("a b", "a b c d e f")]).tolist() == [[3, 6]]


def test_of_equal_rates_the_longer_reference_counts() -> None:
    assert wer.statistics(["a b"], [("a x", "a b c d")]).tolist() == [[2, 4]]
    assert wer.statistics(["a b"], [("a b c d", "a x")]).tolist() == [[2, 4]]


def test_the_token_error_rate_is_that_of_phonemes_for_any_notation() -> None:
    outputs, references = ["K AE T S", "B"], [("K AE D S",), ("B IY",)]
    assert token_error_rate(outputs, references) == per(outputs, references) == pytest.approx(100 * 2 / 6)
    assert metric_for("token_error_rate", "characters")(["abcd"], [("abxd",)]) == pytest.approx(25)
    assert metric_for("token_error_rate", "words") is token_error_rate


def test_token_accuracy_on_paper() -> None:
    # a=a, b!=x, c=c, and one word too many: 2 of 4
    assert token_accuracy(["a b c d"], [("a x c",)]) == pytest.approx(50)
    assert token_accuracy(["a b c d"], [("a x c", "a b c")]) == pytest.approx(75)


def test_token_accuracy_of_characters() -> None:
    assert token_accuracy(["abcd"], [("abxd",)]) == 0
    assert metric_for("token_accuracy", "characters")(["abcd"], [("abxd",)]) == pytest.approx(75)
    assert metric_for("token_accuracy", "bpe") is token_accuracy


def test_a_model_of_words_is_not_blamed_for_white_space() -> None:
    assert metric_for("exact_match", "words")(["a b"], [(" a  b",)]) == 100
    assert metric_for("exact_match", "characters")(["a b"], [(" a  b",)]) == 0


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("B-PER I-PER O B-LOC", ["0-1 PER", "3-3 LOC"]),
        ("I-PER I-PER I-LOC O I-LOC", ["0-1 PER", "2-2 LOC", "4-4 LOC"]),  # IOB1
        ("B-PER B-PER I-PER", ["0-0 PER", "1-2 PER"]),
        ("S-PER B-LOC I-LOC E-LOC E-LOC", ["0-0 PER", "1-3 LOC", "4-4 LOC"]),  # BIOES
        ("NOUN O", []),
    ],
)
def test_the_spans_of_labels(labels: str, expected: list[str]) -> None:
    assert spans(labels) == expected


def test_span_f1_on_paper() -> None:
    """Sentence 1: 1 of 2 spans found, and none too many; sentence 2: a span of the wrong kind. P = 1/2, R = 1/3."""
    outputs = ["B-PER I-PER O O", "B-LOC O"]
    references = [("B-PER I-PER O B-LOC",), ("B-PER O",)]
    assert span_f1(outputs, references) == pytest.approx(100 * 2 * 1 / (2 + 3))


def test_rouge_l_on_paper() -> None:
    # police killed the gunman / police kill the gunman: lcs 3, F = 2·3 / 8
    assert rouge_l(["police kill the gunman"], [("police killed the gunman",)]) == pytest.approx(75)
    assert rouge_l(["the gunman police killed"], [("police killed the gunman",)]) == pytest.approx(50)
    assert rouge_l(["a b", "c"], [("a b",), ("d",)]) == pytest.approx(50)


def test_rouge_n_on_paper() -> None:
    # the cat sat on the mat / the cat is on the mat: 5 of 6 words, 3 of 5 pairs
    output, reference = "the cat sat on the mat", "the cat is on the mat"
    assert rouge_1([output], [(reference,)]) == pytest.approx(100 * 5 / 6)
    assert rouge_2([output], [(reference,)]) == pytest.approx(100 * 3 / 5)
    # "the" counts as often as the side that has it less often: 1 of (3 + 2) / 2
    assert rouge_1(["the the the"], [("the end",)]) == pytest.approx(100 * 2 * 1 / 5)
    # the best reference counts, and the mean is over examples
    assert rouge_2(["a b", "c d"], [("x y", "a b"), ("d c",)]) == pytest.approx(50)


def test_rouge_sees_neither_case_nor_punctuation_but_endings() -> None:
    for metric in (rouge_1, rouge_2, rouge_l):
        assert metric(["RE: Meeting, tomorrow!"], [("Re - meeting tomorrow",)]) == 100
    assert rouge_1(["Meetings"], [("meeting",)]) == 0
    assert rouge_1(["Grüße an Ömer"], [("grüße, ömer.",)]) == pytest.approx(100 * 4 / 5)


def test_rouge_without_words_or_pairs_is_nothing() -> None:
    assert rouge_2(["meeting"], [("meeting",)]) == 0
    assert rouge_1(["?"], [("!",)]) == rouge_l([""], [("...",)]) == 0


def test_bleu_n_on_paper() -> None:
    # Papineni et al. 2002: candidate 1 against three references; 17 of its 18 words are in one of them
    candidate = "It is a guide to action which ensures that the military always obeys the commands of the party"
    references = (
        "It is a guide to action that ensures that the military will forever heed Party commands",
        "It is the guiding principle which guarantees the military forces always being under the command of the Party",
        "It is the practical guide for the army always to heed the directions of the party",
    )
    assert bleu_1([candidate], [references]) == pytest.approx(100 * 17 / 18)
    assert bleu_2([candidate], [references]) == pytest.approx(100 * math.sqrt(17 / 18 * 10 / 17))


def test_bleu_n_is_as_short_as_the_closest_reference() -> None:
    # 3 words, references of 4 and 9: penalty exp(1 - 4/3), all words right, 2 of 2 pairs
    references = ("a b c d", "a b c d e f g h i")
    assert bleu_1(["a b c"], [references]) == pytest.approx(100 * math.exp(1 - 4 / 3))
    assert bleu_2(["a b c"], [references]) == pytest.approx(100 * math.exp(1 - 4 / 3))


@pytest.mark.parametrize(("metric", "order"), [(bleu_1, 1), (bleu_2, 2), (bleu_3, 3)])
def test_bleu_n_is_that_of_sacrebleu_and_of_a_loop(metric: object, order: int) -> None:
    outputs, first, second = sentences(1, 30), sentences(2, 30), sentences(3, 30)
    both = list(zip(first, second, strict=True))
    found = metric(outputs, both)  # type: ignore[operator]
    assert found == BLEU(max_ngram_order=order).corpus_score(outputs, [first, second]).score
    assert found == pytest.approx(looped_bleu(outputs, both, order))
    assert METRICS[f"bleu_{order}"] is metric
    assert metric.signature(both) == bleu.signature(both)  # type: ignore[attr-defined]


def looped_bleu(outputs: list[str], references: list[tuple[str, str]], order: int) -> float:
    """BP · (p_1 · ... · p_n)^(1/n), as in the paper."""

    def ngrams(text: str, n: int) -> Counter[tuple[str, ...]]:
        words = text.split()
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    product, said, wanted = 1.0, 0, 0
    for n in range(1, order + 1):
        right = total = 0
        for output, texts in zip(outputs, references, strict=True):
            ours, theirs = ngrams(output, n), ngrams(texts[0], n) | ngrams(texts[1], n)
            right, total = right + (ours & theirs).total(), total + ours.total()
        product *= right / total
    for output, texts in zip(outputs, references, strict=True):
        length = len(output.split())
        said += length
        wanted += min((abs(len(text.split()) - length), len(text.split())) for text in texts)[1]
    return 100 * min(1.0, math.exp(1 - wanted / said)) * product ** (1 / order)


def rate(edits: int, length: int) -> float:
    if edits == 0:
        return 0.0
    return edits / length if length else float("inf")


texts = st.lists(st.sampled_from("abc "), max_size=9).map("".join)


@settings(max_examples=60, deadline=None)
@given(texts, st.lists(texts, min_size=1, max_size=3).map(tuple))
def test_edits_are_those_of_the_written_out_loop(output: str, references: tuple[str, ...]) -> None:
    for metric, cut in ((wer, str.split), (cer, list)):
        pairs = [(distance(cut(output), cut(text)), len(cut(text))) for text in references]
        best = min(pairs, key=lambda pair: (rate(*pair), -pair[1]))
        assert metric.statistics([output], [references]).tolist() == [list(best)]
    f = max(
        2 * common(output.split(), text.split()) / max(1, len(output.split()) + len(text.split()))
        for text in references
    )
    assert rouge_l([output], [references]) == pytest.approx(100 * f)


def sentences(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(count)]


SCORERS = [(bleu, BLEU), (chrf, CHRF), (ter, TER)]


@pytest.mark.parametrize(("metric", "scorer"), SCORERS, ids=["bleu", "chrf", "ter"])
def test_equal_to_sacrebleu(metric: object, scorer: type) -> None:
    outputs, first, second = sentences(1, 30), sentences(2, 30), sentences(3, 30)
    assert METRICS[metric.name] is metric  # type: ignore[attr-defined]
    one, both = [(text,) for text in first], list(zip(first, second, strict=True))
    theirs = scorer()
    assert metric(outputs, one) == theirs.corpus_score(outputs, [first]).score  # type: ignore[operator]
    assert metric(outputs, both) == theirs.corpus_score(outputs, [first, second]).score  # type: ignore[operator]
    assert metric.signature(both) == str(theirs.get_signature())  # type: ignore[attr-defined]


@pytest.mark.parametrize(("metric", "scorer"), SCORERS, ids=["bleu", "chrf", "ter"])
def test_equal_to_sacrebleu_with_unequal_numbers_of_references(metric: object, scorer: type) -> None:
    outputs, first, second = sentences(4, 20), sentences(5, 20), sentences(6, 20)
    some: list[str | None] = [text if number % 3 else None for number, text in enumerate(second)]
    references = [(one,) if two is None else (one, two) for one, two in zip(first, some, strict=True)]
    theirs = scorer()
    assert metric(outputs, references) == theirs.corpus_score(outputs, [first, some]).score  # type: ignore[operator]
    assert metric.signature(references) == str(theirs.get_signature())  # type: ignore[attr-defined]
    assert "nrefs:var" in metric.signature(references)  # type: ignore[attr-defined]


SPANS = "B-PER I-PER O B-LOC"  # a text for any metric


@pytest.mark.parametrize("name", METRICS)
def test_a_right_answer_is_the_best_there_is(name: str) -> None:
    best = 100 if METRICS[name].higher_is_better else 0
    assert METRICS[name]([SPANS], [(SPANS,)]) == pytest.approx(best)
    assert METRICS[name]([SPANS], [("no", SPANS)]) == pytest.approx(best)


@pytest.mark.parametrize("name", METRICS)
def test_a_wrong_answer_is_worse(name: str) -> None:
    metric = METRICS[name]
    right, wrong = metric([SPANS], [(SPANS,)]), metric(["x y z"], [(SPANS,)])
    assert (wrong < right) == metric.higher_is_better
    assert wrong != right


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("pairs", [[], [("", ("",))], [("", ("a b",))], [("a b", ("",))], [("", ("", "a"))]])
def test_emptiness_divides_nothing(name: str, pairs: list[tuple[str, tuple[str, ...]]]) -> None:
    value = METRICS[name]([output for output, _ in pairs], [references for _, references in pairs])
    assert 0 <= value <= 100


def test_saying_nothing_where_nothing_is_to_be_said_is_right() -> None:
    for name in ("exact_match", "token_accuracy"):
        assert METRICS[name]([""], [("",)]) == 100
    for name in ("cer", "wer", "per", "ter", "token_error_rate"):
        assert METRICS[name]([""], [("",)]) == 0


def test_saying_something_where_nothing_is_to_be_said_is_wrong() -> None:
    for name in ("cer", "wer", "per", "ter", "token_error_rate"):
        assert METRICS[name](["a b"], [("",)]) == 100
    assert wer(["a b", "c d"], [("",), ("c d",)]) == 100  # 2 edits / 2 words: the empty one is not forgotten


def test_unequal_numbers_of_outputs_and_references_are_refused() -> None:
    with pytest.raises(ValueError, match="2 outputs for 1 sets"):
        wer(["a", "b"], [("a",)])
    with pytest.raises(ValueError, match="sentence 1 needs a tuple of references"):
        wer(["a", "b"], [("a",), ()])
    with pytest.raises(ValueError, match="sentence 0 needs a tuple of references"):
        wer(["a"], ["a"])  # type: ignore[list-item]


def test_every_name_of_the_config_is_here() -> None:
    names = set(TrainingConfig.model_json_schema()["properties"]["metric"]["enum"])
    assert names == set(HIGHER_IS_BETTER) == set(METRICS) | set(LIKELIHOOD_METRICS)
    assert list(text_config.OF_LOSS) == list(LIKELIHOOD_METRICS)
    assert set(EvaluationConfig().metrics) <= names
    assert all(name == metric.name for name, metric in METRICS.items())


def test_which_way_is_better() -> None:
    lower = {name for name, higher in HIGHER_IS_BETTER.items() if not higher}
    assert lower == {*LIKELIHOOD_METRICS, "cer", "wer", "per", "ter", "token_error_rate"}
