"""Forced prefixes and forbidden tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import Rows, TableModel, TableState, loop_beam, seeded_rows

from antiphon.search.beam import ShrinkingBeam, beam_search
from antiphon.search.constraints import ForbiddenTokens
from antiphon.search.greedy import greedy_search
from antiphon.search.hypothesis import Hypothesis, SearchRequest

END, START, V = 0, 99, 6


def both(
    rows: Rows, sentences: int, prefixes: list[list[int]] | None, forbidden: tuple[int, ...], size: int = 4
) -> tuple[list[Hypothesis], list[list[Hypothesis]]]:
    greedy = greedy_search(
        TableModel(rows),
        TableState.start(sentences),
        SearchRequest(
            sentences=sentences,
            start=START,
            end=END,
            max_length=7,
            prefixes=prefixes,
            constraints=(ForbiddenTokens(forbidden),),
        ),
    )
    beam = beam_search(
        TableModel(rows),
        TableState.start(sentences),
        SearchRequest(
            sentences=sentences,
            start=START,
            end=END,
            max_length=7,
            length_penalty=0.0,
            prefixes=prefixes,
            constraints=(ForbiddenTokens(forbidden),),
        ),
        policy=ShrinkingBeam(size),
    )
    return greedy, beam


def constrained(rows: Rows, prefixes: list[list[int]], forbidden: tuple[int, ...]) -> Rows:
    """The same table with -inf written in by hand."""

    def table(sentence: int, history: tuple[int, ...]) -> list[float]:
        prefix, values = prefixes[sentence], rows(sentence, history)
        if len(history) < len(prefix):
            forced = prefix[len(history)]
            return [value if token == forced else float("-inf") for token, value in enumerate(values)]
        return [float("-inf") if token in forbidden else value for token, value in enumerate(values)]

    return table


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.lists(st.lists(st.integers(1, V - 1), max_size=4), min_size=1, max_size=4),
    st.sampled_from([(), (1,), (1, 4, 5)]),
    st.integers(1, 5),
)
def test_as_if_the_table_had_been_written_so(
    seed: int, prefixes: list[list[int]], forbidden: tuple[int, ...], size: int
) -> None:
    rows = seeded_rows(seed, V)
    table = constrained(rows, prefixes, forbidden)
    greedy, beam = both(rows, len(prefixes), prefixes, forbidden, size)
    for sentence, prefix in enumerate(prefixes):
        expected = loop_beam(table, sentence, end=END, size=size, max_length=7, length_penalty=0.0)
        assert beam[sentence] == expected
        [best] = loop_beam(table, sentence, end=END, size=1, max_length=7, length_penalty=0.0)
        assert greedy[sentence] == best
        for answer in [*beam[sentence], greedy[sentence]]:
            assert list(answer.tokens[: len(prefix)]) == prefix
            assert not set(answer.tokens[len(prefix) :]) & set(forbidden)


def test_a_forced_token_keeps_its_own_log_probability() -> None:
    rows = seeded_rows(5, V)
    greedy, beam = both(rows, 1, [[3, 2]], ())
    for answer in (greedy[0], beam[0][0]):
        assert answer.log_probs[:2] == (rows(0, ())[3], rows(0, (3,))[2])


def test_a_forced_token_may_be_a_forbidden_one() -> None:
    greedy, beam = both(seeded_rows(5, V), 2, [[3], []], (3,))
    assert greedy[0].tokens[0] == beam[0][0].tokens[0] == 3
    assert 3 not in greedy[0].tokens[1:]
    assert 3 not in greedy[1].tokens


def test_forbidding_changes_the_answer() -> None:
    def rows(_: int, __: tuple[int, ...]) -> list[float]:
        return [-3.0, -0.1, -3.0]

    for forbidden, expected in (((), (1, 1)), ((1,), (0,))):
        request = SearchRequest(
            sentences=1, start=START, end=END, max_length=2, constraints=(ForbiddenTokens(forbidden),)
        )
        [greedy] = greedy_search(TableModel(rows), TableState.start(1), request)
        [[beam]] = beam_search(TableModel(rows), TableState.start(1), request, policy=ShrinkingBeam(1))
        assert greedy.tokens == beam.tokens == expected


def test_an_impossible_prefix_gives_an_unfinished_answer() -> None:
    def rows(_: int, __: tuple[int, ...]) -> list[float]:
        return [-1.0, -1.0, float("-inf")]

    greedy, beam = both(rows, 1, [[2]], ())
    assert greedy == beam[0] == [Hypothesis((), (), 0.0, False)]


def test_there_is_one_prefix_for_each_sentence() -> None:
    with pytest.raises(ValueError, match="1 prefixes for 2 sentences"):
        both(seeded_rows(1, V), 2, [[1]], ())
