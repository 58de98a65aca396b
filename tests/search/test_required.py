"""Phrases that have to be said: they are, wherever the table and the room let them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import MINUS, Rows, TableModel, TableState, all_strings, seeded_rows

from antiphon.search.beam import BEST, Choice, KeptRoom, Room, ShrinkingRoom, beam_search
from antiphon.search.constraints import NoRepeat, Rule, Said
from antiphon.search.hypothesis import Ask, Hypothesis
from antiphon.search.phrases import Banks, Phrases, Required

END, START, V, SENTENCES = 0, 99, 4, 2
Tokens = tuple[int, ...]

words = st.lists(st.integers(1, V - 1), max_size=6).map(tuple)
phrases = st.lists(st.lists(st.integers(1, V - 1), min_size=1, max_size=3).map(tuple), min_size=1, max_size=2).map(
    tuple
)
rooms = st.builds(ShrinkingRoom, st.integers(1, 4)) | st.builds(
    KeptRoom, st.integers(1, 4), st.sampled_from([0.5, 1.0, 2.0])
)


def searched(
    rows: Rows,
    require: tuple[Tokens, ...],
    longest: int,
    room: Room,
    *,
    also: tuple[Rule, ...] = (),
    choice: Choice | None = None,
) -> list[list[Hypothesis]]:
    phrases = Phrases(require)
    rule = Required(phrases, END, (longest,) * SENTENCES)
    return beam_search(
        TableModel(rows),
        TableState.start(SENTENCES),
        Ask(sentences=SENTENCES, start=START, end=END, max_length=longest, length_penalty=0.6, rules=(*also, rule)),
        room=room,
        choice=choice or Banks(phrases, room.size),
    )


def contains(said: Tokens, phrase: Tokens) -> bool:
    return " ".join(map(str, phrase)) in " ".join(map(str, said))  # the tokens have one digit


def said_all(said: Tokens, require: tuple[Tokens, ...]) -> bool:
    return all(contains(said, phrase) for phrase in require)


@settings(max_examples=60)
@given(phrases, words)
def test_what_is_missing_begun_open_and_next(require: tuple[Tokens, ...], said: Tokens) -> None:
    """By plain definitions: of substrings, of beginnings that stand at the end, and of trying every token."""
    tracked = Phrases(require)
    missing = [phrase for phrase in require if not contains(said, phrase)]
    assert tracked.missing(said) == missing
    whole = sum(len(phrase) for phrase in missing)
    ends = {(phrase, n) for phrase in missing for n in range(len(phrase)) if (*said,)[-n:] == phrase[:n] or n == 0}
    phrase, far = tracked.begun(said)
    assert far == max((n for _, n in ends), default=0)
    assert (phrase, far) in ends if missing else phrase == ()
    assert tracked.open(said) == whole - far
    assert tracked.next(said) == {phrase[n] for phrase, n in ends}
    closer = {token for token in range(1, V) if tracked.open((*said, token)) < tracked.open(said)}
    assert closer <= tracked.next(said)
    assert bool(closer) == bool(missing)


def test_an_example_on_paper() -> None:
    tracked = Phrases(((1, 2, 3), (2, 1)))
    assert (tracked.open(()), tracked.next(())) == (5, {1, 2})
    assert (tracked.begun((1, 2)), tracked.open((1, 2)), tracked.next((1, 2))) == (((1, 2, 3), 2), 3, {1, 2, 3})
    assert (tracked.missing((1, 2, 1)), tracked.open((1, 2, 1))) == ([(1, 2, 3)], 2)
    assert (tracked.missing((2, 1, 2, 3)), tracked.begun((2, 1, 2, 3)), tracked.open((2, 1, 2, 3))) == ([], ((), 0), 0)
    assert Phrases(((1, 2), (1, 3))).next((1,)) == {1, 2, 3}


@settings(max_examples=100)
@given(phrases, words, st.integers(0, 4))
def test_the_rule_keeps_as_much_room_as_is_needed(require: tuple[Tokens, ...], said: Tokens, spare: int) -> None:
    """Where what is missing still fits, a token may be said if it fits afterwards, too."""
    tracked = Phrases(require)
    length = len(said) + tracked.open(said) + 1 + spare
    scores = torch.zeros(1, 1, V)
    tokens = torch.tensor([[said]], dtype=torch.long).reshape(1, 1, len(said))
    Required(tracked, END, (length,)).forbid(scores, Said(torch.tensor([0]), tokens))
    allowed = {token for token in range(V) if scores[0, 0, token] == 0}
    left = length - 1 - len(said) - 1
    fitting = {token for token in range(1, V) if tracked.open((*said, token)) <= left}
    assert allowed == (fitting if tracked.missing(said) else set(range(V)))
    assert allowed


@settings(max_examples=25)
@given(st.integers(0, 10_000), phrases, st.integers(0, 3), rooms, st.floats(-2, 3))
def test_every_answer_has_them_if_there_is_room(
    seed: int, require: tuple[Tokens, ...], spare: int, room: Room, end_bias: float
) -> None:
    """Also where phrases overlap, where there is no token to spare, and where the model would rather end."""
    longest = Phrases(require).open(()) + 1 + spare
    for answers in searched(seeded_rows(seed, V, end_bias=end_bias), require, longest, room):
        assert answers
        for answer in answers:
            assert said_all(answer.tokens, require)
            assert answer.finished or len(answer.tokens) == longest


@settings(max_examples=25)
@given(st.integers(0, 10_000), phrases, st.integers(-2, 3), rooms)
def test_unfinished_are_those_that_got_stuck_or_were_cut(
    seed: int, require: tuple[Tokens, ...], spare: int, room: Room
) -> None:
    """A table with zeros, and at times too little room: nothing ends without the phrases."""
    rows, longest = seeded_rows(seed, V, zeros=0.4), max(1, Phrases(require).open(()) + 1 + spare)
    for sentence, answers in enumerate(searched(rows, require, longest, room)):
        for answer in answers:
            if answer.finished:
                assert said_all(answer.tokens, require)
            elif len(answer.tokens) < longest:
                stuck(rows, sentence, answer.tokens, require, longest)


def stuck(rows: Rows, sentence: int, said: Tokens, require: tuple[Tokens, ...], longest: int) -> None:
    """Every way on is impossible in the table, or leaves too little room for what is missing."""
    possible = [token for token, value in enumerate(rows(sentence, said)) if value > MINUS]
    tracked, left = Phrases(require), longest - len(said) - 2
    assert tracked.missing(said)
    assert all(token == END or tracked.open((*said, token)) > left for token in possible)


APART: list[tuple[Tokens, ...]] = [((1,),), ((1, 2),), ((1, 1),), ((1, 2, 1),), ((1, 2), (3,)), ((1, 2), (1, 3))]


@pytest.mark.parametrize("require", APART, ids=str)
@pytest.mark.parametrize("room", [ShrinkingRoom(3000), KeptRoom(3000, 1.0)], ids=["shrinking", "kept"])
def test_a_beam_as_wide_as_everything_is_brute_force(require: tuple[Tokens, ...], room: Room) -> None:
    """Nothing that contains the phrases is lost, down to the room that just holds them, and nothing else is found."""
    for longest in range(Phrases(require).open(()) + 1, 6):
        rows = seeded_rows(longest, V)
        for sentence, answers in enumerate(searched(rows, require, longest, room)):
            strings = all_strings(rows, sentence, vocabulary=V, end=END, max_length=longest, length_penalty=0.6)
            expected = [string for string in strings if string.finished and said_all(string.tokens, require)]
            found = [answer for answer in answers if answer.finished]
            assert [answer.tokens for answer in found] == [string.tokens for string in expected]
            assert [answer.score for answer in found] == pytest.approx([string.score for string in expected], abs=1e-6)


def test_only_the_phrase_is_said_when_it_just_fits() -> None:
    for answers in searched(seeded_rows(3, V, end_bias=3.0), ((2, 3, 2, 1),), 5, ShrinkingRoom(1)):
        assert [answer.tokens[:4] for answer in answers] == [(2, 3, 2, 1)]


def test_a_phrase_is_not_broken_off_without_room_to_begin_it_anew() -> None:
    """After 1 2 there is room for one token beside 3 and </s>, but not for another whole phrase."""
    table: dict[Tokens, list[float]] = {(1, 2): [0.0, 0.0, 0.97, 0.03], (): [0.0, 0.9, 0.05, 0.05]}

    def rows(_: int, said: Tokens) -> list[float]:
        return logs(table.get(said, [0.1, 0.3, 0.4, 0.2]))

    for size in (1, 2, 4):
        for answers in searched(rows, ((1, 2, 3),), 5, ShrinkingRoom(size)):
            assert all(contains(answer.tokens, (1, 2, 3)) for answer in answers)


def logs(p: list[float]) -> list[float]:
    return [math.log(value) if value else MINUS for value in p]


@settings(max_examples=25)
@given(st.integers(0, 10_000), phrases, st.integers(1, 3), rooms)
def test_with_another_rule_both_hold_or_it_is_unfinished(
    seed: int, require: tuple[Tokens, ...], n: int, room: Room
) -> None:
    longest = Phrases(require).open(()) + 3
    for answers in searched(seeded_rows(seed, V), require, longest, room, also=(NoRepeat(n),)):
        for answer in answers:
            grams = [answer.tokens[first : first + n] for first in range(len(answer.tokens) - n + 1)]
            assert len(set(grams)) == len(grams)
            assert not answer.finished or said_all(answer.tokens, require)


def test_the_banks_on_paper() -> None:
    """1 2 is to be said. After 1 the token 2 ends it, after 3 nothing is begun; banks give in turn, best first."""
    scores = torch.tensor([[[MINUS, -3.0, -9.0, -1.0], [MINUS, -5.0, -2.0, -4.0]]])
    said = Said(torch.tensor([0]), torch.tensor([[[1], [3]]]))
    banks = Banks(Phrases(((1, 2),)), 6)
    whole, half, none = [2], [1, 4 + 1], [3, 4 + 2, 4 + 3]  # places of 1 2; of what ends in 1; of the others
    assert banks.places(torch.zeros(1, 2), scores, said, 3).tolist() == [[whole[0], half[0], none[0]]]
    assert banks.places(torch.zeros(1, 2), scores, said, 6).tolist() == [
        [whole[0], half[0], none[0], half[1], none[1], none[2]]
    ]
    scores[0, 0] = MINUS
    assert banks.places(torch.zeros(1, 2), scores, said, 4).tolist()[0][:3] == [half[1], none[1], none[2]]


def test_how_many_are_asked_for_does_not_change_their_order() -> None:
    """Another sentence whose beam is wider asks for more, and so does an observer."""
    draw = torch.Generator().manual_seed(1)
    for size in (1, 2, 3):
        banks = Banks(Phrases(((1, 2), (3,))), size)
        scores = torch.randn(1, 2, V, generator=draw)
        said = Said(torch.tensor([0]), torch.tensor([[[1], [2]]]))
        [whole] = banks.places(torch.zeros(1, 2), scores, said, 2 * V).tolist()
        assert sorted(whole) == list(range(2 * V))
        for count in range(1, 2 * V):
            assert banks.places(torch.zeros(1, 2), scores, said, count).tolist() == [whole[:count]]


def test_the_banks_find_a_better_place_than_the_last_one() -> None:
    """Without them a phrase that is not likely is said when it must be; with them where it costs least."""
    better = worse = 0
    for seed in range(12):
        rows = seeded_rows(seed, V)
        shared, best = (searched(rows, ((1, 2, 3),), 8, ShrinkingRoom(6), choice=one) for one in (None, BEST))
        for [one, *_], [other, *_] in zip(shared, best, strict=True):
            better += one.score > other.score + 1e-9
            worse += one.score < other.score - 1e-9
    assert better > 3 * worse


def test_a_stream_has_no_end_to_hold_back() -> None:
    """Its end is -1, which must not be taken for the last token."""
    phrases = Phrases(((1,),))
    [[answer]] = beam_search(
        TableModel(lambda *_: logs([0.1, 0.1, 0.1, 0.7])),
        TableState.start(1),
        Ask(sentences=1, start=START, end=-1, max_length=5, rules=(Required(phrases, -1, (5,)),)),
        room=ShrinkingRoom(1),
    )
    assert answer.tokens == (3, 3, 3, 1, 3)
