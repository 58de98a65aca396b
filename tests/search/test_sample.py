"""Sampling: frequencies follow the table, what is cut off never comes, and company changes nothing."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from table_model import TableModel, TableState, coarse_rows, seeded_rows

from antiphon.search.greedy import greedy_search
from antiphon.search.hypothesis import Hypothesis, SearchRequest
from antiphon.search.sampling import Sampling, draw_tokens, random_stream, sample_search

START, END, VOCABULARY = 99, 0, 5
P = [0.4, 0.3, 0.15, 0.1, 0.05]
DRAWN = 2000


def sampled(
    model: TableModel, sentences: int, sampling: Sampling, first: int = 0, max_length: int = 6
) -> list[Hypothesis]:
    return sample_search(
        model,
        TableState.start(sentences),
        SearchRequest(sentences=sentences, start=START, end=END, max_length=max_length),
        sampling=sampling,
        random_streams=[random_stream(sampling.seed, first + number) for number in range(sentences)],
    )


def shares(sampling: Sampling) -> list[float]:
    """The frequency of each first token over many sentences with the same table."""
    model = TableModel(lambda *_: [math.log(p) for p in P])
    counts = Counter(answer.tokens[0] for answer in sampled(model, DRAWN, sampling, max_length=1))
    return [counts[token] / DRAWN for token in range(VOCABULARY)]


def near(wanted: list[float]) -> object:
    """Within five standard deviations of a share of so many draws."""
    return pytest.approx(wanted, abs=5 * math.sqrt(0.25 / DRAWN))


def normalised(weights: list[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def test_frequencies_follow_the_table() -> None:
    assert shares(Sampling()) == near(P)
    assert shares(Sampling(seed=2)) == near(P)
    assert shares(Sampling(seed=2)) != shares(Sampling())


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_is_an_exponent(temperature: float) -> None:
    assert shares(Sampling(temperature=temperature)) == near(normalised([p ** (1 / temperature) for p in P]))


def test_top_k_keeps_the_most_probable() -> None:
    assert shares(Sampling(top_k=2)) == near(normalised([0.4, 0.3, 0, 0, 0]))
    assert shares(Sampling(top_k=2))[2:] == [0, 0, 0]
    assert shares(Sampling(top_k=1)) == [1, 0, 0, 0, 0]
    assert shares(Sampling(top_k=50)) == near(P)


@pytest.mark.parametrize(("top_p", "kept"), [(0.1, 1), (0.399, 1), (0.401, 2), (0.69, 2), (0.71, 3), (1.0, 5)])
def test_top_p_keeps_the_fewest_that_make_it(top_p: float, kept: int) -> None:
    found = shares(Sampling(top_p=top_p))
    assert found == near(normalised([*P[:kept], *[0.0] * (5 - kept)]))
    assert found[kept:] == [0] * (5 - kept)


def test_top_p_is_a_share_of_what_top_k_left() -> None:
    """Of 0.4, 0.3, 0.15 the first is 0.47: so much, and no more, is needed for 0.45."""
    assert shares(Sampling(top_k=3, top_p=0.45)) == [1, 0, 0, 0, 0]
    assert shares(Sampling(top_p=0.45))[1] > 0


def test_equal_probabilities_are_cut_off_from_the_end() -> None:
    model = TableModel(lambda *_: [math.log(0.2)] * 5)
    drawn = {answer.tokens[0] for answer in sampled(model, 300, Sampling(top_k=2), max_length=1)}
    assert drawn == {0, 1}


def test_the_numbers_cut_the_table_in_order() -> None:
    scores = torch.tensor([P], dtype=torch.float64).log()
    for number, token in ((0.0, 0), (0.399, 0), (0.401, 1), (0.699, 1), (0.701, 2), (0.949, 3), (0.951, 4)):
        assert draw_tokens(scores, torch.tensor([number]).double(), Sampling()).tolist() == [token]
    last = torch.tensor([math.nextafter(1.0, 0.0)]).double()
    assert draw_tokens(scores, last, Sampling()).tolist() == [4]
    assert draw_tokens(scores, last, Sampling(top_k=3)).tolist() == [2], (
        "nothing that was cut off, not even by rounding"
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rows", [seeded_rows, coarse_rows])
def test_a_temperature_near_zero_is_greedy(seed: int, rows: object) -> None:
    """Ties apart: of equals greedy takes the lower token, a draw takes any."""
    model = TableModel(rows(seed, VOCABULARY))  # type: ignore[operator]
    best = greedy_search(model, TableState.start(7), SearchRequest(sentences=7, start=START, end=END, max_length=6))
    cold = sampled(model, 7, Sampling(temperature=1e-4, seed=seed))
    if rows is seeded_rows:
        assert cold == best
    for answer in cold:
        taken = [model.rows(cold.index(answer), answer.tokens[:n])[t] for n, t in enumerate(answer.tokens)]
        tops = [max(model.rows(cold.index(answer), answer.tokens[:n])) for n in range(len(answer.tokens))]
        assert taken == tops


@pytest.mark.parametrize("sampling", [Sampling(seed=4), Sampling(temperature=0.7, top_k=3, top_p=0.9, seed=4)])
def test_the_same_answer_in_any_company(sampling: Sampling) -> None:
    """Sentences leave when they are done, so rows move; the draws stay with their sentence."""
    rows = seeded_rows(11, VOCABULARY)
    together = sampled(TableModel(rows), 40, sampling)
    assert len({answer.tokens for answer in together}) > 10
    assert len({len(answer.tokens) for answer in together}) > 2
    for number in (0, 17, 39):
        one = TableModel(lambda _, history, number=number: rows(number, history))
        [alone] = sampled(one, 1, sampling, first=number)
        assert alone == together[number]


def test_log_probabilities_are_the_models_own() -> None:
    rows = seeded_rows(5, VOCABULARY)
    for number, answer in enumerate(sampled(TableModel(rows), 20, Sampling(temperature=3.0, top_k=4))):
        own = [rows(number, answer.tokens[:place])[token] for place, token in enumerate(answer.tokens)]
        assert list(answer.log_probs) == pytest.approx(own)
        assert answer.score == pytest.approx(sum(own))
        assert answer.finished == (answer.tokens[-1] == END)


def test_what_is_impossible_never_comes() -> None:
    rows = seeded_rows(6, VOCABULARY, zeros=0.6)
    for answer in sampled(TableModel(rows), 200, Sampling(temperature=5.0)):
        assert all(value > -math.inf for value in answer.log_probs)
    nothing = TableModel(lambda *_: [-math.inf] * VOCABULARY)
    [stuck] = sampled(nothing, 1, Sampling())
    assert (stuck.tokens, stuck.finished) == ((), False)


def test_a_start_for_each_sentence() -> None:
    """The token before the first may differ: a language model goes on from the last token of each prompt."""
    seen: list[list[int]] = []

    def step(tokens: torch.Tensor, state: TableState) -> tuple[torch.Tensor, TableState]:
        seen.append(tokens.tolist())
        return torch.zeros(len(tokens), VOCABULARY), state

    greedy_search(step, TableState.start(3), SearchRequest(sentences=3, start=[7, 8, 9], end=END, max_length=1))
    assert seen == [[7, 8, 9]]


def test_what_is_not_a_number_in_one_sentence_changes_no_other() -> None:
    rows = seeded_rows(8, VOCABULARY)

    def spoilt(sentence: int, history: tuple[int, ...]) -> list[float]:
        return [math.nan] * VOCABULARY if sentence == 3 and len(history) == 1 else rows(sentence, history)

    whole, broken = (sampled(TableModel(table), 20, Sampling(seed=6)) for table in (rows, spoilt))
    assert broken[:3] == whole[:3]
    assert broken[4:] == whole[4:]
    assert len(whole[3].tokens) > 1
    assert (broken[3].tokens, broken[3].finished) == (whole[3].tokens[:1], False)


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.9}])
def test_a_temperature_may_be_as_small_or_large_as_a_number_can(options: dict[str, Any]) -> None:
    scores = torch.tensor([[0.15, 0.3, 0.4, 0.1, 0.05]], dtype=torch.float64).log()
    for temperature in (1e-300, 1e-320, 5e-324):
        sampling = Sampling(temperature=temperature, **options)
        assert draw_tokens(scores, torch.tensor([0.5]).double(), sampling).tolist() == [2]
    even = Sampling(temperature=1e308)
    assert [draw_tokens(scores, torch.tensor([n / 5 + 0.1]).double(), even).item() for n in range(5)] == [0, 1, 2, 3, 4]
