"""Groups of beams that keep away from one another."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import MINUS, History, Rows, TableModel, TableState, seeded_rows

from antiphon.search.beam import BeamPolicy, PatientBeam, ShrinkingBeam, beam_search
from antiphon.search.diverse import Diversity, diverse_search
from antiphon.search.hypothesis import Hypothesis, SearchRequest

END, START, V, LONGEST, SENTENCES, PENALTY = 0, 99, 5, 5, 3, 0.6


def request(sentences: int = SENTENCES) -> SearchRequest:
    return SearchRequest(sentences=sentences, start=START, end=END, max_length=LONGEST, length_penalty=PENALTY)


def searched(
    rows: Rows, policy: BeamPolicy, diversity: Diversity, sentences: int = SENTENCES
) -> list[list[Hypothesis]]:
    model, state = TableModel(rows), TableState.start(sentences)
    return diverse_search(model, state, request(sentences), policy=policy, diversity=diversity, vocabulary=V)


def texts(answers: list[Hypothesis]) -> list[History]:
    return [answer.tokens for answer in answers]


def loop_diverse(rows: Rows, sentence: int, *, size: int, groups: int, strength: float) -> list[Hypothesis]:
    """For one sentence, over lists: group after group, and each token taken costs those after it."""
    frontiers: list[list[tuple[History, list[float]]]] = [[((), [])] for _ in range(groups)]
    done: list[list[Hypothesis]] = [[] for _ in range(groups)]
    for _ in range(LONGEST):
        taken: list[int] = []
        for group in range(groups):
            candidates = []
            for slot, (history, values) in enumerate(frontiers[group]):
                for token, value in enumerate(rows(sentence, history)):
                    wanted = sum([*values, value]) - strength * taken.count(token)
                    candidates.append((-wanted, slot, token, ((*history, token), [*values, value])))
            candidates.sort(key=lambda candidate: candidate[:3])
            kept = [(token, way) for *_, token, way in candidates[: size - len(done[group])]]
            frontiers[group] = [way for token, way in kept if token != END]
            done[group] += [answer_of(way, finished=True) for token, way in kept if token == END]
            taken += [token for token, _ in kept]
    cut = [answer_of(way, finished=False) for frontier in frontiers for way in frontier]
    once = {answer.tokens: answer for answer in [*(answer for group in done for answer in group), *cut]}
    return sorted(once.values(), key=lambda answer: (not answer.finished, -answer.score))


def answer_of(way: tuple[History, list[float]], *, finished: bool) -> Hypothesis:
    return Hypothesis.of(list(way[0]), way[1], finished=finished, length_penalty=PENALTY)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(2, 4), st.floats(0.05, 3))
def test_it_is_the_loop(seed: int, size: int, groups: int, strength: float) -> None:
    """The cost is that of all groups before, in this step alone; the scores are the model's own."""
    rows = seeded_rows(seed, V)
    found = searched(rows, ShrinkingBeam(size), Diversity(groups, strength))
    for sentence, answers in enumerate(found):
        expected = loop_diverse(rows, sentence, size=size, groups=groups, strength=strength)
        assert [(a.tokens, a.finished) for a in answers] == [(a.tokens, a.finished) for a in expected]
        assert [a.score for a in answers] == pytest.approx([a.score for a in expected], abs=1e-6)


@settings(max_examples=10)
@given(st.integers(0, 10_000), st.sampled_from([ShrinkingBeam(2), ShrinkingBeam(3), PatientBeam(2, 1.0)]))
def test_next_to_no_cost_makes_each_group_the_same_beam(seed: int, policy: BeamPolicy) -> None:
    rows = seeded_rows(seed, V)
    alike = searched(rows, policy, Diversity(3, 1e-12))
    plain = beam_search(TableModel(rows), TableState.start(SENTENCES), request(), policy=policy)
    assert [texts(answers) for answers in alike] == [texts(answers) for answers in plain]


@settings(max_examples=10)
@given(st.integers(0, 10_000), st.floats(0.1, 2))
def test_alone_as_in_a_batch(seed: int, strength: float) -> None:
    rows = seeded_rows(seed, V)
    together = searched(rows, PatientBeam(2, 1.0), Diversity(2, strength))
    for sentence, answers in enumerate(together):
        moved: Rows = lambda _, history, number=sentence: rows(number, history)  # type: ignore[misc]  # noqa: E731
        assert searched(moved, PatientBeam(2, 1.0), Diversity(2, strength), sentences=1) == [answers]


def test_a_dear_token_is_said_by_one_group_only() -> None:
    """On paper: 1 is the best first token, 2 the next, 3 the last; each then ends."""
    first, then = [MINUS, -0.5, -1.5, -2.0, MINUS], [0.0, MINUS, MINUS, MINUS, MINUS]

    def rows(_: int, history: History) -> list[float]:
        return then if history else first

    for strength, expected in ((0.4, [(1, END)]), (1.1, [(1, END), (2, END)]), (1.6, [(1, END), (2, END), (3, END)])):
        [found] = searched(rows, ShrinkingBeam(1), Diversity(3, strength), sentences=1)
        assert texts(found) == expected
        assert [answer.score * 2**PENALTY for answer in found] == pytest.approx([-0.5, -1.5, -2.0][: len(found)])


def test_its_answers_differ_more_than_those_of_a_beam() -> None:
    """Different first tokens among as many answers."""
    more = fewer = 0
    for seed in range(12):
        rows = seeded_rows(seed, V)
        diverse = searched(rows, ShrinkingBeam(2), Diversity(2, 1.5))
        plain = beam_search(TableModel(rows), TableState.start(SENTENCES), request(), policy=ShrinkingBeam(4))
        for one, other in zip(diverse, plain, strict=True):
            kinds = [len({answer.tokens[0] for answer in answers}) for answers in (one, other)]
            more, fewer = more + (kinds[0] > kinds[1]), fewer + (kinds[0] < kinds[1])
    assert more > 3 * fewer
