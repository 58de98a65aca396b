"""The searches of the lectures, on paper."""

from __future__ import annotations

import math

import pytest
from table_model import History, TableModel, TableState

from antiphon.search.beam import ShrinkingBeam, beam_search
from antiphon.search.greedy import greedy_search
from antiphon.search.hypothesis import Hypothesis, SearchRequest

YES, OK, END, START = 0, 1, 2, 3


def logs(*probabilities: float) -> list[float]:
    return [math.log(p) if p else float("-inf") for p in probabilities]


def yes_or_ok(_: int, history: History) -> list[float]:
    if history == ():
        return logs(0.5, 0.4, 0.1)
    if history == (YES,):
        return logs(0.4, 0.3, 0.3)
    if history == (OK,):
        return logs(0.2, 0.7, 0.1)
    return logs(0.0, 0.0, 1.0)


def search(size: int, length_penalty: float = 0.0, max_length: int = 5) -> list[Hypothesis]:
    return beam_search(
        TableModel(yes_or_ok),
        TableState.start(1),
        SearchRequest(sentences=1, start=START, end=END, max_length=max_length, length_penalty=length_penalty),
        policy=ShrinkingBeam(size),
    )[0]


def test_greedy_says_yes_yes() -> None:
    [answer] = greedy_search(
        TableModel(yes_or_ok), TableState.start(1), SearchRequest(sentences=1, start=START, end=END, max_length=5)
    )
    assert answer.tokens == (YES, YES, END)
    assert answer.finished
    assert math.exp(answer.log_prob) == pytest.approx(0.5 * 0.4)


def test_a_beam_of_two_finds_ok_ok() -> None:
    answers = search(2)
    assert [answer.tokens for answer in answers] == [(OK, OK, END), (YES, YES, END)]
    assert [math.exp(answer.score) for answer in answers] == pytest.approx([0.4 * 0.7, 0.5 * 0.4])


def test_a_wide_beam_finds_every_string() -> None:
    answers = search(20)
    assert sum(math.exp(answer.log_prob) for answer in answers) == pytest.approx(1.0)
    assert len(answers) == 7
    assert [math.exp(a.log_prob) for a in answers] == pytest.approx([0.28, 0.2, 0.15, 0.15, 0.1, 0.08, 0.04])


def test_length_penalty_divides_by_the_length_to_its_power() -> None:
    by_tokens = {answer.tokens: answer for answer in search(20, length_penalty=1.0)}
    assert by_tokens[(OK, OK, END)].score == pytest.approx(math.log(0.28) / 3)
    assert by_tokens[(END,)].score == pytest.approx(math.log(0.1))
    half = {answer.tokens: answer for answer in search(20, length_penalty=0.5)}
    assert half[(OK, OK, END)].score == pytest.approx(math.log(0.28) / math.sqrt(3))


def test_length_penalty_changes_the_order() -> None:
    plain = [answer.tokens for answer in search(20)]
    normalised = [answer.tokens for answer in search(20, length_penalty=1.0)]
    assert plain.index((END,)) < plain.index((OK, YES, END))
    assert normalised.index((OK, YES, END)) < normalised.index((END,))


def test_max_length_counts_the_end_and_leaves_the_rest_unfinished() -> None:
    answers = search(3, max_length=2)
    # after one step: yes .5, ok .4 go on and </s> .1 has ended; then two places: ok ok .28, yes yes .2
    assert [(answer.tokens, answer.finished) for answer in answers] == [
        ((END,), True),
        ((OK, OK), False),
        ((YES, YES), False),
    ]


ARRIVED, THE, GREEN, WITCH, STOP = range(5)


def witch(_: int, history: History) -> list[float]:
    if history == ():
        return logs(0.45, 0.4, 0.05, 0.05, 0.05)
    if history == (ARRIVED,):
        return logs(0.1, 0.25, 0.25, 0.2, 0.2)
    if history == (THE,):
        return logs(0.02, 0.02, 0.5, 0.4, 0.06)
    return logs(0.0, 0.0, 0.0, 0.0, 1.0)


def test_both_survivors_may_come_from_the_second_hypothesis() -> None:
    """arrived .45, the .4 → the green .2, the witch .16; arrived the/green .1125 is pruned."""
    [answers] = beam_search(
        TableModel(witch),
        TableState.start(1),
        SearchRequest(sentences=1, start=9, end=STOP, max_length=9, length_penalty=0.0),
        policy=ShrinkingBeam(2),
    )
    assert [answer.tokens for answer in answers] == [(THE, GREEN, STOP), (THE, WITCH, STOP)]
    assert [math.exp(answer.score) for answer in answers] == pytest.approx([0.2, 0.16])
