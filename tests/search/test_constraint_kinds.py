"""Each constraint acts as if its -inf had been written into the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import MINUS, History, Rows, TableModel, TableState, loop_beam, seeded_rows

from antiphon.search.beam import ShrinkingBeam, beam_search
from antiphon.search.constraints import Constraint, ForbiddenPhrases, MaxLength, MinLength, NoRepeatNgram
from antiphon.search.greedy import greedy_search
from antiphon.search.hypothesis import Hypothesis, SearchRequest

END, START, V, LONGEST, SENTENCES = 0, 99, 4, 7, 3
Banned = Callable[[int, History, int], bool]


def searched(rows: Rows, constraints: tuple[Constraint, ...], size: int) -> list[list[Hypothesis]]:
    return beam_search(
        TableModel(rows),
        TableState.start(SENTENCES),
        SearchRequest(
            sentences=SENTENCES, start=START, end=END, max_length=LONGEST, length_penalty=0.0, constraints=constraints
        ),
        policy=ShrinkingBeam(size),
    )


def without(rows: Rows, banned: Banned) -> Rows:
    """The same table with -inf written in by hand."""

    def table(sentence: int, history: History) -> list[float]:
        values = rows(sentence, history)
        return [MINUS if banned(sentence, history, token) else value for token, value in enumerate(values)]

    return table


def repeats(n: int) -> Banned:
    """True if the token completes an n-gram that occurred before."""

    def banned(_: int, history: History, token: int) -> bool:
        tokens = (*history, token)
        grams = [tokens[i : i + n] for i in range(len(tokens) - n + 1)]
        return token != END and len(tokens) >= n and grams.count(tokens[-n:]) > 1

    return banned


def too_short(lengths: tuple[int, ...]) -> Banned:
    return lambda sentence, history, token: token == END and len(history) + 1 < lengths[sentence]


def ends(phrases: tuple[tuple[int, ...], ...]) -> Banned:
    """True if the token completes one of the phrases."""
    return lambda _, history, token: any((*history, token)[-len(phrase) :] == phrase for phrase in phrases)


def too_long(lengths: tuple[int, ...]) -> Banned:
    return lambda sentence, history, _: len(history) >= lengths[sentence]


NEVER = ((3,), (1, 2), (2, 1, 1), (2, 2))
CONSTRAINTS: dict[str, tuple[Constraint, Banned]] = {
    **{f"no {n} twice": (NoRepeatNgram(n), repeats(n)) for n in (1, 2, 3)},
    "at least": (MinLength(END, (1, 4, 6)), too_short((1, 4, 6))),
    "never": (ForbiddenPhrases(NEVER), ends(NEVER)),
    "never long": (ForbiddenPhrases(((1, 1, 1),)), ends(((1, 1, 1),))),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 5))
def test_as_if_the_table_had_been_written_so(name: str, seed: int, size: int) -> None:
    constraint, banned = CONSTRAINTS[name]
    rows = seeded_rows(seed, V)
    table = without(rows, banned)
    found = searched(rows, (constraint,), size)
    for sentence, answers in enumerate(found):
        expected = loop_beam(table, sentence, end=END, size=size, max_length=LONGEST, length_penalty=0.0)
        assert [answer.tokens for answer in answers] == [answer.tokens for answer in expected]
    greedy = greedy_search(
        TableModel(rows),
        TableState.start(SENTENCES),
        SearchRequest(sentences=SENTENCES, start=START, end=END, max_length=LONGEST, constraints=(constraint,)),
    )
    assert [answer.tokens for answer in greedy] == [answers[0].tokens for answers in searched(rows, (constraint,), 1)]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_they_hold_together(seed: int) -> None:
    for answers in searched(seeded_rows(seed, V), (NoRepeatNgram(2), MinLength(END, (3, 3, 3))), 4):
        for answer in answers:
            tokens = answer.tokens
            pairs = list(pairwise(tokens))
            assert len(set(pairs)) == len(pairs)
            assert not answer.finished or len(tokens) >= 3


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 5), lengths=st.tuples(*[st.integers(1, LONGEST)] * SENTENCES))
def test_at_most_is_a_search_with_that_maximum_length(seed: int, size: int, lengths: tuple[int, ...]) -> None:
    """A hypothesis of maximum length comes back unfinished; the others of the batch go on."""
    rows = seeded_rows(seed, V, end_bias=-0.5)
    found = searched(rows, (MaxLength(lengths),), size)
    for sentence, (answers, longest) in enumerate(zip(found, lengths, strict=True)):
        expected = loop_beam(rows, sentence, end=END, size=size, max_length=longest, length_penalty=0.0)
        assert [(a.tokens, a.finished) for a in answers] == [(a.tokens, a.finished) for a in expected]
    request = SearchRequest(
        sentences=SENTENCES, start=START, end=END, max_length=LONGEST, constraints=(MaxLength(lengths),)
    )
    greedy = greedy_search(TableModel(rows), TableState.start(SENTENCES), request)
    one = searched(rows, (MaxLength(lengths),), 1)
    assert [(a.tokens, a.finished) for a in greedy] == [(a.tokens, a.finished) for [a] in one]


def test_a_stream_has_no_end_to_hold_back() -> None:
    """Its end is -1, which must not be taken for the last token."""
    rows = seeded_rows(5, V)
    request = SearchRequest(sentences=1, start=START, end=-1, max_length=LONGEST)
    free = greedy_search(TableModel(rows), TableState.start(1), request)
    held = greedy_search(
        TableModel(rows), TableState.start(1), replace(request, constraints=(MinLength(-1, (LONGEST,)),))
    )
    assert V - 1 in free[0].tokens
    assert held == free
