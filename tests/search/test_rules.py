"""Rules that look at what was said: each acts as if the table had been written so."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import MINUS, History, Rows, TableModel, TableState, loop_beam, seeded_rows

from antiphon.decoding.ask import Ask
from antiphon.decoding.beam import beam_search
from antiphon.decoding.constraints import Rule
from antiphon.decoding.greedy import greedy_search
from antiphon.decoding.hypothesis import Hypothesis
from antiphon.decoding.room import ShrinkingRoom
from antiphon.decoding.rules import LeastLength, NoRepeat

END, START, V, LONGEST, SENTENCES = 0, 99, 4, 7, 3
Banned = Callable[[int, History, int], bool]


def searched(rows: Rows, rules: tuple[Rule, ...], size: int) -> list[list[Hypothesis]]:
    return beam_search(
        TableModel(rows),
        TableState.start(SENTENCES),
        Ask(sentences=SENTENCES, start=START, end=END, max_length=LONGEST, length_penalty=0.0, rules=rules),
        room=ShrinkingRoom(size),
    )


def without(rows: Rows, banned: Banned) -> Rows:
    """The same table with -inf written in by hand."""

    def table(sentence: int, history: History) -> list[float]:
        values = rows(sentence, history)
        return [MINUS if banned(sentence, history, token) else value for token, value in enumerate(values)]

    return table


def repeats(n: int) -> Banned:
    """Whether the token ends n tokens that were said before."""

    def banned(_: int, history: History, token: int) -> bool:
        said = (*history, token)
        grams = [said[i : i + n] for i in range(len(said) - n + 1)]
        return token != END and len(said) >= n and grams.count(said[-n:]) > 1

    return banned


def too_short(lengths: tuple[int, ...]) -> Banned:
    return lambda sentence, history, token: token == END and len(history) + 1 < lengths[sentence]


RULES: dict[str, tuple[Rule, Banned]] = {
    **{f"no {n} twice": (NoRepeat(n), repeats(n)) for n in (1, 2, 3)},
    "at least": (LeastLength(END, (1, 4, 6)), too_short((1, 4, 6))),
}


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 5))
def test_as_if_the_table_had_been_written_so(name: str, seed: int, size: int) -> None:
    rule, banned = RULES[name]
    rows = seeded_rows(seed, V)
    table = without(rows, banned)
    found = searched(rows, (rule,), size)
    for sentence, answers in enumerate(found):
        expected = loop_beam(table, sentence, end=END, size=size, max_length=LONGEST, length_penalty=0.0)
        assert [answer.tokens for answer in answers] == [answer.tokens for answer in expected]
    greedy = greedy_search(
        TableModel(rows),
        TableState.start(SENTENCES),
        Ask(sentences=SENTENCES, start=START, end=END, max_length=LONGEST, rules=(rule,)),
    )
    assert [answer.tokens for answer in greedy] == [answers[0].tokens for answers in searched(rows, (rule,), 1)]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_they_hold_together(seed: int) -> None:
    for answers in searched(seeded_rows(seed, V), (NoRepeat(2), LeastLength(END, (3, 3, 3))), 4):
        for answer in answers:
            said = answer.tokens
            pairs = list(pairwise(said))
            assert len(set(pairs)) == len(pairs)
            assert not answer.finished or len(said) >= 3
