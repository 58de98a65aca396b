"""Beam search against brute force and against plain loops, on random tables."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import TableModel, TableState, all_strings, coarse_rows, loop_beam, seeded_rows

from antiphon.search.beam import Beam, PatientBeam, ShrinkingBeam, beam_search, search_single
from antiphon.search.constraints import ForbiddenTokens, MaxLength, MinLength
from antiphon.search.greedy import greedy_search
from antiphon.search.hypothesis import Hypothesis, SearchRequest

END, START = 0, 99
seeds = st.integers(0, 10_000)
small = settings(max_examples=40, deadline=None)


def beam(model: TableModel, sentences: int, size: int, max_length: int, penalty: float = 1.0) -> list[list[Hypothesis]]:
    return beam_search(
        model,
        TableState.start(sentences),
        SearchRequest(sentences=sentences, start=START, end=END, max_length=max_length, length_penalty=penalty),
        policy=ShrinkingBeam(size),
    )


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(a.tokens, a.finished) for a in found] == [(a.tokens, a.finished) for a in expected]
    assert [a.score for a in found] == pytest.approx([a.score for a in expected], abs=1e-9)


@small
@given(seeds, st.integers(2, 4), st.integers(1, 4), st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.7, 1.0]))
def test_a_wide_beam_is_brute_force(seed: int, V: int, length: int, zeros: float, penalty: float) -> None:
    rows = seeded_rows(seed, V, zeros=zeros)
    found = beam(TableModel(rows), 2, 400, length, penalty)
    for sentence in range(2):
        expected = all_strings(rows, sentence, vocabulary=V, end=END, max_length=length, length_penalty=penalty)
        assert_same(found[sentence], expected)


@small
@given(seeds, st.integers(2, 6), st.integers(1, 7), st.integers(1, 6))
def test_it_is_the_lectures_loop(seed: int, V: int, size: int, length: int) -> None:
    rows = seeded_rows(seed, V, zeros=0.2)
    found = beam(TableModel(rows), 3, size, length)
    for sentence in range(3):
        expected = loop_beam(rows, sentence, end=END, size=size, max_length=length, length_penalty=1.0)
        assert_same(found[sentence], expected)


@small
@given(seeds, st.integers(2, 6), st.integers(1, 7), st.integers(1, 5))
def test_ties_go_to_the_lower_hypothesis_then_the_lower_token(seed: int, V: int, size: int, length: int) -> None:
    rows = coarse_rows(seed, V)
    found = beam(TableModel(rows, torch.float32), 3, size, length, 0.0)
    for sentence in range(3):
        assert found[sentence] == loop_beam(rows, sentence, end=END, size=size, max_length=length, length_penalty=0.0)


@small
@given(seeds, st.integers(2, 6), st.integers(1, 8), st.sampled_from([seeded_rows, coarse_rows]))
def test_a_beam_of_one_is_greedy(seed: int, V: int, length: int, make: object) -> None:
    rows = coarse_rows(seed, V) if make is coarse_rows else seeded_rows(seed, V, zeros=0.2)
    greedy = greedy_search(
        TableModel(rows),
        TableState.start(4),
        SearchRequest(sentences=4, start=START, end=END, max_length=length, length_penalty=1.0),
    )
    assert [[answer] for answer in greedy] == beam(TableModel(rows), 4, 1, length)


@small
@given(seeds, st.integers(1, 6), st.sampled_from([0.0, 0.6, 1.0]))
def test_the_score_can_be_recomputed_from_the_tokens(seed: int, size: int, penalty: float) -> None:
    rows = seeded_rows(seed, 5)
    for sentence, answers in enumerate(beam(TableModel(rows, torch.float32), 3, size, 6, penalty)):
        assert len(answers) == size
        for answer in answers:
            again = [rows(sentence, answer.tokens[:place])[token] for place, token in enumerate(answer.tokens)]
            assert answer.log_probs == pytest.approx(again, abs=1e-5)
            assert answer.score == pytest.approx(sum(again) / len(again) ** penalty, abs=1e-5)
            assert answer.log_prob == sum(answer.log_probs)
            assert answer.finished == (answer.tokens[-1] == END)
            assert END not in answer.tokens[:-1]


@small
@given(seeds, st.integers(1, 5), st.permutations(range(6)))
def test_a_sentence_gets_the_same_answers_in_any_company(seed: int, size: int, order: list[int]) -> None:
    rows = seeded_rows(seed, 6, end_bias=1.0)
    together = beam(TableModel(lambda sentence, past: rows(order[sentence], past)), 6, size, 12)
    for place, sentence in enumerate(order):
        [alone] = beam(TableModel(lambda _, past, own=sentence: rows(own, past)), 1, size, 12)  # type: ignore[misc]
        assert together[place] == alone


def test_sentences_that_are_done_leave_the_batch() -> None:
    def rows(sentence: int, history: tuple[int, ...]) -> list[float]:
        stop = len(history) >= 2 * sentence
        return [math.log(p) for p in ((0.98, 0.01, 0.01) if stop else (0.0001, 0.5, 0.4999))]

    model = TableModel(rows)
    beam(model, 3, 1, 20)
    assert [set(asked) for asked in model.asked] == [{0, 1, 2}, {1, 2}, {1, 2}, {2}, {2}]


def test_the_first_step_has_one_row_and_the_frontier_is_never_wider_than_it_is_full() -> None:
    def rows(_: int, history: tuple[int, ...]) -> list[float]:
        return [math.log(p) for p in ((0.01, 0.5, 0.49) if len(history) < 2 else (0.98, 0.01, 0.01))]

    model = TableModel(rows)
    [answers] = beam(model, 1, 3, 20)
    assert len(answers) == 3
    assert [len(asked) for asked in model.asked] == [1, 2, 2]


def test_without_enough_answers_fewer_come_back() -> None:
    rows = seeded_rows(3, 2)
    [answers] = beam(TableModel(rows), 1, 50, 3)
    assert len(answers) == 4  # </s>, a </s>, a a </s>, a a a
    assert all(math.isfinite(answer.score) for answer in answers)


def test_a_sentence_that_cannot_go_on_comes_back_unfinished() -> None:
    def rows(sentence: int, history: tuple[int, ...]) -> list[float]:
        nothing = [float("-inf")] * 3
        return nothing if sentence == 0 and len(history) == 2 else [-2.0, -0.5, -1.5]

    for size in (1, 3):
        stuck, fine = beam(TableModel(rows), 2, size, 4)
        assert next(answer.tokens for answer in stuck if not answer.finished) == (1, 1)
        assert len(fine) == size
    [first, _] = greedy_search(
        TableModel(rows), TableState.start(2), SearchRequest(sentences=2, start=START, end=END, max_length=4)
    )
    assert (first.tokens, first.finished) == ((1, 1), False)


def test_a_stuck_sentence_stays_stuck_whatever_its_end_is_called() -> None:
    def rows(_: int, history: tuple[int, ...]) -> list[float]:
        return [float("-inf")] * 3 if len(history) == 1 else [-0.5, -1.5, -2.0]

    request = SearchRequest(sentences=1, start=START, end=2, max_length=5)
    [greedy] = greedy_search(TableModel(rows), TableState.start(1), request)
    [[beam]] = beam_search(TableModel(rows), TableState.start(1), request, policy=ShrinkingBeam(1))
    assert greedy == beam == Hypothesis((0,), (-0.5,), -0.5, False)


def test_what_is_not_a_number_is_never_chosen() -> None:
    def rows(_: int, __: tuple[int, ...]) -> list[float]:
        return [-1.0, float("nan"), -2.0]

    [answers] = beam(TableModel(rows), 1, 2, 3)
    assert {token for answer in answers for token in answer.tokens} == {0, 2}
    [greedy] = greedy_search(
        TableModel(rows), TableState.start(1), SearchRequest(sentences=1, start=START, end=END, max_length=3)
    )
    assert greedy.tokens == (0,)


def test_no_sentences_no_answers() -> None:
    model = TableModel(coarse_rows(1, 3))
    assert beam(model, 0, 3, 5) == []
    assert (
        greedy_search(model, TableState.start(0), SearchRequest(sentences=0, start=START, end=END, max_length=5)) == []
    )
    assert model.asked == []


class Stop(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_check_is_called_each_step_and_its_exception_comes_out(method: str) -> None:
    calls: list[int] = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise Stop

    model = TableModel(lambda _, __: [-9.0, -0.1, -0.2, -0.3, -0.4])
    request = SearchRequest(sentences=2, start=START, end=END, max_length=9, check=check)
    searches: dict[str, Callable[[], object]] = {
        "greedy": lambda: greedy_search(model, TableState.start(2), request),
        "beam": lambda: beam_search(model, TableState.start(2), request, policy=ShrinkingBeam(3)),
    }
    with pytest.raises(Stop):
        searches[method]()
    assert len(model.asked) == 2


def test_no_graph_is_built() -> None:
    weight = torch.zeros(3, requires_grad=True)
    seen: list[bool] = []

    def step(tokens: torch.Tensor, state: TableState) -> tuple[torch.Tensor, TableState]:
        log_probs = weight.log_softmax(0).expand(len(tokens), 3)
        seen.append(log_probs.requires_grad)
        return log_probs, state

    beam_search(
        step,
        TableState.start(1),
        SearchRequest(sentences=1, start=START, end=END, max_length=3, length_penalty=0.0),
        policy=ShrinkingBeam(2),
    )
    greedy_search(step, TableState.start(1), SearchRequest(sentences=1, start=START, end=END, max_length=3))
    assert seen
    assert not any(seen)


@settings(max_examples=150, deadline=None)
@given(
    seeds,
    st.integers(2, 6),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([None, 0.5, 1.0, 2.0]),
    st.booleans(),
)
def test_one_sentence_alone_is_searched_as_in_a_batch(
    seed: int, V: int, size: int, length: int, patience: float | None, ties: bool
) -> None:
    """With ties, impossible tokens, forced prefixes, constraints, both policies: search_single finds what Beam does."""
    rows = coarse_rows(seed, V) if ties else seeded_rows(seed, V, zeros=0.3)
    policy = ShrinkingBeam(size) if patience is None else PatientBeam(size, patience)
    constraints = (ForbiddenTokens((V - 1,)), MinLength(END, (seed % 4,)), MaxLength((length - seed % 2,)))
    request = SearchRequest(
        sentences=1, start=START, end=END, max_length=length, length_penalty=0.7, prefixes=[[1] * (seed % 3)],
        constraints=constraints[: seed % 5],
    )  # fmt: skip
    plain = Beam(TableState.start(1), request, policy)
    for position in range(length):
        if not plain.done:
            plain.advance(TableModel(rows), position)
    found = search_single(TableModel(rows), TableState.start(1), request, policy)
    assert found == plain.hypotheses()[0]
