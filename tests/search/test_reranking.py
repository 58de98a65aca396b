"""Other orders among answers: by coverage, and by likeness to the others."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from antiphon.search.hypothesis import Hypothesis
from antiphon.search.rerank import by_coverage, by_expected_utility, coverage_penalty

METRICS: dict[str, Any] = {"chrf": CHRF(), "bleu": BLEU(effective_order=True)}


def answer(score: float, *, finished: bool = True) -> Hypothesis:
    return Hypothesis((5,), (score,), score, finished)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 5))
def test_the_penalty_is_the_loop(seed: int, T: int, S: int) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.ones(S), size=T)
    expected = 0.0
    for column in range(S):
        expected += math.log(min(sum(weights[row, column] for row in range(T)), 1.0))
    assert coverage_penalty(weights) == pytest.approx(expected, abs=1e-9)


def test_the_penalty_on_paper() -> None:
    """Sums 1, 0.5 and 1.5, which counts as 1: log 1 + log 0.5 + log 1."""
    weights = np.array([[0.5, 0.5, 0.0], [0.25, 0.0, 0.75], [0.25, 0.0, 0.75]])
    assert coverage_penalty(weights) == pytest.approx(math.log(0.5))
    assert math.isfinite(coverage_penalty(np.array([[1.0, 0.0]])))


def test_coverage_turns_two_answers_round_when_it_counts_enough() -> None:
    """The likelier one leaves half of a token: it falls behind when strength x log 2 is more than its lead of 0.2."""
    likely, covering, cut = answer(-1.0), answer(-1.2), answer(-0.1, finished=False)
    half, whole = np.array([[1.0, 0.5]]), np.array([[1.0, 1.0]])
    for strength, expected in ((0.28, [likely, covering, cut]), (0.30, [covering, likely, cut])):
        assert by_coverage([likely, covering, cut], [half, whole, whole], strength) == expected
    assert [one.score for one in by_coverage([likely, covering], [half, whole], 9.0)] == [-1.2, -1.0]


words = st.lists(st.sampled_from(["ab", "cd", "ef"]), min_size=1, max_size=4).map(" ".join)


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
@settings(max_examples=30)
@given(texts=st.lists(words, min_size=1, max_size=6))
def test_likeness_is_the_double_loop(utility: Literal["chrf", "bleu"], texts: list[str]) -> None:
    """Over all the others; that a text is like itself makes no difference."""
    sums = []
    for place, text in enumerate(texts):
        total = 0.0
        for other_place, other in enumerate(texts):
            if other_place != place:
                total += METRICS[utility].sentence_score(text, [other]).score
        sums.append(total)
    order = by_expected_utility(texts, utility)
    assert sorted(order) == list(range(len(texts)))
    assert [sums[place] for place in order] == pytest.approx(sorted(sums, reverse=True), abs=1e-6)


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_the_likeliest_sample_need_not_be_the_one(utility: Literal["chrf", "bleu"]) -> None:
    """One text drawn twice is beaten by the middle of a family of which no two are equal."""
    family = ["the cat sat on the mat", "the cat sat on a mat", "the cat lay on the mat", "a cat sat on the mat"]
    texts = ["no idea", "no idea", *family]
    assert texts[by_expected_utility(texts, utility)[0]] == "the cat sat on the mat"


def test_equal_texts_count_as_often_as_they_were_drawn() -> None:
    assert by_expected_utility(["b", "a", "a"], "chrf") == [1, 2, 0]
    assert by_expected_utility(["b", "a"], "chrf") == [0, 1]  # the one drawn first
    assert by_expected_utility(["b", "", ""], "chrf") == [1, 2, 0]  # two that say nothing are alike, too
    assert by_expected_utility([], "chrf") == []
