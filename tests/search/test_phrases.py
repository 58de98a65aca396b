"""Required phrases occur wherever the table and the maximum length allow it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import MINUS, Rows, TableModel, TableState, all_strings, seeded_rows

from antiphon.search.beam import BeamPolicy, ByScore, PatientBeam, Ranking, ShrinkingBeam, beam_search
from antiphon.search.constraints import Constraint, History, NoRepeatNgram
from antiphon.search.hypothesis import Hypothesis, SearchRequest
from antiphon.search.phrases import DynamicBeamAllocation, PhraseConstraint, RequiredPhrases

END, START, V, SENTENCES = 0, 99, 4, 2
Tokens = tuple[int, ...]

words = st.lists(st.integers(1, V - 1), max_size=6).map(tuple)
phrases = st.lists(st.lists(st.integers(1, V - 1), min_size=1, max_size=3).map(tuple), min_size=1, max_size=2).map(
    tuple
)
policies = st.builds(ShrinkingBeam, st.integers(1, 4)) | st.builds(
    PatientBeam, st.integers(1, 4), st.sampled_from([0.5, 1.0, 2.0])
)


def searched(
    rows: Rows,
    require: tuple[Tokens, ...],
    longest: int,
    policy: BeamPolicy,
    *,
    also: tuple[Constraint, ...] = (),
    ranking: Ranking | None = None,
) -> list[list[Hypothesis]]:
    phrases = RequiredPhrases(require)
    constraint = PhraseConstraint(phrases, END, (longest,) * SENTENCES)
    return beam_search(
        TableModel(rows),
        TableState.start(SENTENCES),
        SearchRequest(
            sentences=SENTENCES,
            start=START,
            end=END,
            max_length=longest,
            length_penalty=0.6,
            constraints=(*also, constraint),
        ),
        policy=policy,
        ranking=ranking or DynamicBeamAllocation(phrases, policy.size),
    )


def contains(history: Tokens, phrase: Tokens) -> bool:
    return " ".join(map(str, phrase)) in " ".join(map(str, history))  # the tokens have one digit


def contains_all(history: Tokens, require: tuple[Tokens, ...]) -> bool:
    return all(contains(history, phrase) for phrase in require)


@settings(max_examples=60)
@given(phrases, words)
def test_missing_phrases_remaining_tokens_and_continuations(require: tuple[Tokens, ...], history: Tokens) -> None:
    """By plain definitions: of substrings, of beginnings that stand at the end, and of trying every token."""
    tracked = RequiredPhrases(require)
    missing = [phrase for phrase in require if not contains(history, phrase)]
    assert tracked.missing(history) == missing
    whole = sum(len(phrase) for phrase in missing)
    ends = {(phrase, n) for phrase in missing for n in range(len(phrase)) if (*history,)[-n:] == phrase[:n] or n == 0}
    assert tracked.remaining(history) == whole - max((n for _, n in ends), default=0)
    assert tracked.continuations(history) == {phrase[n] for phrase, n in ends}
    closer = {token for token in range(1, V) if tracked.remaining((*history, token)) < tracked.remaining(history)}
    assert closer <= tracked.continuations(history)
    assert bool(closer) == bool(missing)


def test_an_example_on_paper() -> None:
    tracked = RequiredPhrases(((1, 2, 3), (2, 1)))
    assert (tracked.remaining(()), tracked.continuations(())) == (5, {1, 2})
    assert (tracked.remaining((1, 2)), tracked.continuations((1, 2))) == (3, {1, 2, 3})
    assert (tracked.missing((1, 2, 1)), tracked.remaining((1, 2, 1))) == ([(1, 2, 3)], 2)
    assert (tracked.missing((2, 1, 2, 3)), tracked.remaining((2, 1, 2, 3))) == ([], 0)
    assert RequiredPhrases(((1, 2), (1, 3))).continuations((1,)) == {1, 2, 3}


@settings(max_examples=100)
@given(phrases, words, st.integers(0, 4))
def test_the_constraint_keeps_enough_positions(require: tuple[Tokens, ...], history: Tokens, spare: int) -> None:
    """While the missing phrases still fit, a token is allowed if they also fit after it."""
    tracked = RequiredPhrases(require)
    length = len(history) + tracked.remaining(history) + 1 + spare
    scores = torch.zeros(1, 1, V)
    tokens = torch.tensor([[history]], dtype=torch.long).reshape(1, 1, len(history))
    PhraseConstraint(tracked, END, (length,)).apply(scores, History(torch.tensor([0]), tokens))
    allowed = {token for token in range(V) if scores[0, 0, token] == 0}
    left = length - 1 - len(history) - 1
    fitting = {token for token in range(1, V) if tracked.remaining((*history, token)) <= left}
    assert allowed == (fitting if tracked.missing(history) else set(range(V)))
    assert allowed


@settings(max_examples=25)
@given(st.integers(0, 10_000), phrases, st.integers(0, 3), policies, st.floats(-2, 3))
def test_every_answer_contains_them_if_they_fit(
    seed: int, require: tuple[Tokens, ...], spare: int, policy: BeamPolicy, end_bias: float
) -> None:
    """Also where phrases overlap, where there is no token to spare, and where the model would rather end."""
    longest = RequiredPhrases(require).remaining(()) + 1 + spare
    for answers in searched(seeded_rows(seed, V, end_bias=end_bias), require, longest, policy):
        assert answers
        for answer in answers:
            assert contains_all(answer.tokens, require)
            assert answer.finished or len(answer.tokens) == longest


@settings(max_examples=25)
@given(st.integers(0, 10_000), phrases, st.integers(-2, 3), policies)
def test_unfinished_are_dead_ends_or_were_cut(
    seed: int, require: tuple[Tokens, ...], spare: int, policy: BeamPolicy
) -> None:
    """A table with zeros, and at times too little room: nothing ends without the phrases."""
    rows, longest = seeded_rows(seed, V, zeros=0.4), max(1, RequiredPhrases(require).remaining(()) + 1 + spare)
    for sentence, answers in enumerate(searched(rows, require, longest, policy)):
        for answer in answers:
            if answer.finished:
                assert contains_all(answer.tokens, require)
            elif len(answer.tokens) < longest:
                check_dead_end(rows, sentence, answer.tokens, require, longest)


def check_dead_end(rows: Rows, sentence: int, history: Tokens, require: tuple[Tokens, ...], longest: int) -> None:
    """Every way on is impossible in the table, or leaves too little room for what is missing."""
    possible = [token for token, value in enumerate(rows(sentence, history)) if value > MINUS]
    tracked, left = RequiredPhrases(require), longest - len(history) - 2
    assert tracked.missing(history)
    assert all(token == END or tracked.remaining((*history, token)) > left for token in possible)


APART: list[tuple[Tokens, ...]] = [((1,),), ((1, 2),), ((1, 1),), ((1, 2, 1),), ((1, 2), (3,)), ((1, 2), (1, 3))]


@pytest.mark.parametrize("require", APART, ids=str)
@pytest.mark.parametrize("policy", [ShrinkingBeam(3000), PatientBeam(3000, 1.0)], ids=["shrinking", "kept"])
def test_a_beam_as_wide_as_everything_is_brute_force(require: tuple[Tokens, ...], policy: BeamPolicy) -> None:
    """Nothing that contains the phrases is lost, down to the room that just holds them, and nothing else is found."""
    for longest in range(RequiredPhrases(require).remaining(()) + 1, 6):
        rows = seeded_rows(longest, V)
        for sentence, answers in enumerate(searched(rows, require, longest, policy)):
            strings = all_strings(rows, sentence, vocabulary=V, end=END, max_length=longest, length_penalty=0.6)
            expected = [string for string in strings if string.finished and contains_all(string.tokens, require)]
            found = [answer for answer in answers if answer.finished]
            assert [answer.tokens for answer in found] == [string.tokens for string in expected]
            assert [answer.score for answer in found] == pytest.approx([string.score for string in expected], abs=1e-6)


def test_only_the_phrase_comes_when_it_just_fits() -> None:
    for answers in searched(seeded_rows(3, V, end_bias=3.0), ((2, 3, 2, 1),), 5, ShrinkingBeam(1)):
        assert [answer.tokens[:4] for answer in answers] == [(2, 3, 2, 1)]


def test_a_phrase_is_not_broken_off_without_room_to_begin_it_anew() -> None:
    """After 1 2 there is room for one token beside 3 and </s>, but not for another whole phrase."""
    table: dict[Tokens, list[float]] = {(1, 2): [0.0, 0.0, 0.97, 0.03], (): [0.0, 0.9, 0.05, 0.05]}

    def rows(_: int, history: Tokens) -> list[float]:
        return logs(table.get(history, [0.1, 0.3, 0.4, 0.2]))

    for size in (1, 2, 4):
        for answers in searched(rows, ((1, 2, 3),), 5, ShrinkingBeam(size)):
            assert all(contains(answer.tokens, (1, 2, 3)) for answer in answers)


def logs(p: list[float]) -> list[float]:
    return [math.log(value) if value else MINUS for value in p]


@settings(max_examples=25)
@given(st.integers(0, 10_000), phrases, st.integers(1, 3), policies)
def test_with_another_constraint_both_hold_or_it_is_unfinished(
    seed: int, require: tuple[Tokens, ...], n: int, policy: BeamPolicy
) -> None:
    longest = RequiredPhrases(require).remaining(()) + 3
    for answers in searched(seeded_rows(seed, V), require, longest, policy, also=(NoRepeatNgram(n),)):
        for answer in answers:
            grams = [answer.tokens[first : first + n] for first in range(len(answer.tokens) - n + 1)]
            assert len(set(grams)) == len(grams)
            assert not answer.finished or contains_all(answer.tokens, require)


def test_the_banks_on_paper() -> None:
    """1 2 is required. After 1 the token 2 ends it, after 3 nothing is begun; banks give in turn, best first."""
    scores = torch.tensor([[[MINUS, -3.0, -9.0, -1.0], [MINUS, -5.0, -2.0, -4.0]]])
    history = History(torch.tensor([0]), torch.tensor([[[1], [3]]]))
    allocation = DynamicBeamAllocation(RequiredPhrases(((1, 2),)), 6)
    whole, half, none = [2], [1, 4 + 1], [3, 4 + 2, 4 + 3]  # places of 1 2; of what ends in 1; of the others
    assert allocation.rank(torch.zeros(1, 2), scores, history, 3).tolist() == [[whole[0], half[0], none[0]]]
    assert allocation.rank(torch.zeros(1, 2), scores, history, 6).tolist() == [
        [whole[0], half[0], none[0], half[1], none[1], none[2]]
    ]
    scores[0, 0] = MINUS
    assert allocation.rank(torch.zeros(1, 2), scores, history, 4).tolist()[0][:3] == [half[1], none[1], none[2]]


def test_the_order_does_not_depend_on_the_count() -> None:
    """Another sentence whose beam is wider asks for more, and so does an observer."""
    draw = torch.Generator().manual_seed(1)
    for size in (1, 2, 3):
        allocation = DynamicBeamAllocation(RequiredPhrases(((1, 2), (3,))), size)
        scores = torch.randn(1, 2, V, generator=draw)
        history = History(torch.tensor([0]), torch.tensor([[[1], [2]]]))
        [whole] = allocation.rank(torch.zeros(1, 2), scores, history, 2 * V).tolist()
        assert sorted(whole) == list(range(2 * V))
        for count in range(1, 2 * V):
            assert allocation.rank(torch.zeros(1, 2), scores, history, count).tolist() == [whole[:count]]


def test_the_banks_find_a_better_place_than_the_last_one() -> None:
    """Without them an improbable phrase comes when it must; with them where it costs least."""
    better = worse = 0
    for seed in range(12):
        rows = seeded_rows(seed, V)
        shared, best = (searched(rows, ((1, 2, 3),), 8, ShrinkingBeam(6), ranking=one) for one in (None, ByScore()))
        for [one, *_], [other, *_] in zip(shared, best, strict=True):
            better += one.score > other.score + 1e-9
            worse += one.score < other.score - 1e-9
    assert better > 3 * worse


def test_a_stream_has_no_end_to_hold_back() -> None:
    """Its end is -1, which must not be taken for the last token."""
    phrases = RequiredPhrases(((1,),))
    [[answer]] = beam_search(
        TableModel(lambda *_: logs([0.1, 0.1, 0.1, 0.7])),
        TableState.start(1),
        SearchRequest(
            sentences=1, start=START, end=-1, max_length=5, constraints=(PhraseConstraint(phrases, -1, (5,)),)
        ),
        policy=ShrinkingBeam(1),
    )
    assert answer.tokens == (3, 3, 3, 1, 3)
