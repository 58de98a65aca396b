"""Joint n-grams: how pairs are cut into units, how these are counted, and what a pair's probability is."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from antiphon.errors import UserError
from antiphon.ngrams import joint as automaton
from antiphon.ngrams import train_joint as aligning
from antiphon.ngrams import train_joint as smoothing
from antiphon.ngrams.joint import END, FIRST, NOTHING, SHAPES, START, UNKNOWN, IdPair, JointNgrams
from antiphon.ngrams.train_joint import Aligned, Lattice, align, count_ngrams

Cut = tuple[tuple[int, ...], tuple[int, ...]]


def cuts(source: list[int], target: list[int]) -> Iterator[list[Cut]]:
    """All of them, written out."""
    if not source and not target:
        yield []
    for read, written in SHAPES:
        if read <= len(source) and written <= len(target):
            unit = tuple(source[:read]), tuple(target[:written])
            for rest in cuts(source[read:], target[written:]):
                yield [unit, *rest]


def named(aligned: Aligned) -> list[Cut]:
    """The units as their tokens."""
    sides = [
        [tuple(t for t in half if t != NOTHING) for half in (unit[:2], unit[2:])] for unit in aligned.units.tolist()
    ]
    return [(source, target) for source, target in sides]


def some_pairs(seed: int, count: int) -> list[IdPair]:
    draw = random.Random(seed)
    sources = [draw.choices(range(4, 8), k=draw.randint(1, 4)) for _ in range(count)]
    return [(one, draw.choices(range(4, 9), k=draw.randint(1, min(5, 2 * len(one))))) for one in sources]


def test_expected_counts_are_those_over_all_cuts() -> None:
    """Forward and backward sums against every cut, one by one, with probabilities of no pattern."""
    pairs = [pair for pair in some_pairs(1, 40) if (len(pair[0]), len(pair[1])) == (3, 4)] + [([4, 5, 6], [4, 5, 6, 7])]
    lattice = Lattice(pairs, (10, 10))
    p = np.random.default_rng(2).random(len(lattice.keys))
    counts = lattice.expected(p)
    number = {key: place for place, key in enumerate(lattice.keys.tolist())}

    def place(cut: Cut) -> int:
        digits = [*(t + 1 for t in cut[0]), 0][:2] + [*(t + 1 for t in cut[1]), 0, 0][:2]
        return number[int("".join(map(str, digits)))]  # base 10

    expected = np.zeros(len(p))
    for pair in pairs:
        ways = [[place(unit) for unit in cut] for cut in cuts(*pair)]
        chances = [math.prod(p[way]) for way in ways]
        for way, chance in zip(ways, chances, strict=True):
            np.add.at(expected, way, chance / sum(chances))
    np.testing.assert_allclose(counts, expected)
    for pair, best in zip(pairs, lattice.best(p), strict=True):
        ways = [[place(unit) for unit in cut] for cut in cuts(*pair)]
        assert math.prod(p[best]) == pytest.approx(max(math.prod(p[way]) for way in ways))


def test_two_letters_of_one_sound_and_one_that_is_silent_are_found() -> None:
    """4 5 sound as 9 together, 6 as 10, 7 as nothing; 5 alone as 11."""
    sound = {(4, 5): [9], (6,): [10], (7,): [], (5,): [11]}
    draw = random.Random(4)
    words = [draw.choices(list(sound), k=draw.randint(1, 5)) for _ in range(300)]
    pairs = [([t for part in word for t in part], [t for part in word for t in sound[part]]) for word in words]
    pairs = [pair for pair in pairs if pair[1]]
    aligned = align(pairs)
    units = named(aligned)
    used = defaultdict(int)
    for row in aligned.rows:
        for unit in row:
            used[units[unit]] += 1
    often = {unit for unit, count in used.items() if count > 20}
    assert often == {((4, 5), (9,)), ((6,), (10,)), ((7,), ()), ((5,), (11,))}


def test_what_cannot_be_cut_is_left_out() -> None:
    aligned = align([([4], [5, 6]), ([4], [5, 6, 7]), ([], [5]), ([4], [])])
    assert [[named(aligned)[unit] for unit in row] for row in aligned.rows] == [[((4,), (5, 6))]]


def loops(rows: list[list[int]], size: int, order: int, often: int) -> dict[tuple[int, ...], dict[int, float]]:
    """Kneser and Ney with three discounts, n-gram by n-gram: history → unit → p, and b(h) as unit -1."""
    texts = [(START, *(unit + FIRST for unit in row), END) for row in rows]
    seen: dict[tuple[int, ...], int] = defaultdict(int)
    for text in texts:
        for n in range(1, order + 1):
            for first in range(len(text) - n + 1):
                seen[text[first : first + n]] += 1
    found: dict[tuple[int, ...], dict[int, float]] = {}
    for n in range(1, order + 1):
        grams = [gram for gram in seen if len(gram) == n and gram[-1] != START]
        counts = {
            gram: seen[gram] if n == order or gram[0] == START else sum(other[1:] == gram for other in seen)
            for gram in grams
        }
        ones = [1 + sum(count == c for count in counts.values()) for c in (1, 2, 3, 4)]
        Y = ones[0] / (ones[0] + 2 * ones[1])
        D = [c - (c + 1) * Y * ones[c] / ones[c - 1] for c in (1, 2, 3)]
        D = [min(max(value, 0.1), c - 0.1) for c, value in zip((1, 2, 3), D, strict=True)]
        for history in {gram[:-1] for gram in grams}:
            here = {gram: counts[gram] for gram in grams if gram[:-1] == history}
            shares = {gram: (c - D[min(c, 3) - 1]) / sum(here.values()) for gram, c in here.items()}
            kept = {gram: share for gram, share in shares.items() if n < often or seen[gram] > 1}
            if kept:
                left = 1.0 - sum(kept.values())
                said = {gram[-1]: share + left * looked_up(found, gram[1:], size) for gram, share in kept.items()}
                found[history] = {**said, -1: left}
    return found


def looked_up(found: dict[tuple[int, ...], dict[int, float]], gram: tuple[int, ...], size: int) -> float:
    """p(last | the others), with back-off; for nothing at all, one of `size`."""
    if not gram:
        return 1.0 / size
    said = found.get(gram[:-1])
    if said is None:
        return looked_up(found, gram[1:], size)
    if gram[-1] in said:
        return said[gram[-1]]
    return said[-1] * (looked_up(found, gram[1:], size) if len(gram) > 1 else 1.0 / size)


SAID = 4 + 2  # four units, one never seen, and the end


@pytest.mark.parametrize(("order", "often"), [(1, 9), (2, 9), (3, 9), (4, 3)])
def test_it_is_kneser_and_ney(order: int, often: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every unit after every history that is as long as any; and all of them together have probability 1."""
    monkeypatch.setattr(smoothing, "OFTEN", often)
    draw = random.Random(order)
    rows = [draw.choices(range(4), weights=(6, 3, 2, 1), k=draw.randint(1, 6)) for _ in range(30)]
    units = np.array([[4 + u, NOTHING, 4 + u, NOTHING] for u in range(4)])
    found = count_ngrams(Aligned(units, rows), order)
    expected = loops(rows, SAID, order, often)
    for _ in range(200):
        before = [START, *draw.choices(range(FIRST, FIRST + 4), k=draw.randint(0, 4))]
        state, known = found.start, {}
        for unit in before[1:]:
            state = found._arc(state, unit, known)[1]
        said = [math.exp(found._arc(state, unit, known)[0]) for unit in (UNKNOWN, END, *range(FIRST, FIRST + 4))]
        assert sum(said) == pytest.approx(1.0, abs=1e-5)
        history = tuple(before[max(0, len(before) - order + 1) :]) if order > 1 else ()
        for unit, p in zip((END, *range(FIRST, FIRST + 4)), said[1:], strict=True):
            assert p == pytest.approx(looked_up(expected, (*history, unit), SAID), rel=1e-5)


def counted(pairs: list[IdPair]) -> JointNgrams:
    return count_ngrams(align(pairs), 3)


def test_a_pair_has_the_probability_of_all_its_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "KEPT", 1000)
    pairs = some_pairs(7, 60)
    found = counted(pairs)
    for source, target in pairs[:20]:
        total = 0.0
        for cut in cuts(source, target):
            numbers = [found._numbers.get(unit) for unit in cut]
            if None in numbers:
                continue
            state, log_p = found.start, 0.0
            for unit in [*numbers, END]:
                step, state = found._arc(state, unit, {})
                log_p += step
            total += math.exp(log_p)
        assert found.log_prob(source, target) == pytest.approx(math.log(total))


def test_what_was_never_seen_is_possible_and_what_is_too_long_is_not() -> None:
    found = counted([([4, 5], [4, 5]), ([5, 4], [5, 4]), ([4, 4], [4, 4])])
    usual, strange = found.log_prob([4, 5], [4, 5]), found.log_prob([4, 9], [4, 9])
    assert usual is not None
    assert strange is not None
    assert strange < usual
    assert found.log_prob([4], [4, 4, 4]) is None
    assert found.log_prob([], []) is not None
    assert found.log_prob([], [4]) is None


def test_few_histories_are_close_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = some_pairs(9, 80)
    found = counted(pairs)
    every = [found.log_prob(*pair) or 0.0 for pair in pairs]
    monkeypatch.setattr(automaton, "KEPT", 1)
    few = [found.log_prob(*pair) or 0.0 for pair in pairs]
    assert few != every
    assert all(one <= other + 1e-9 for one, other in zip(few, every, strict=True))  # ways are given up
    assert few == pytest.approx(every, abs=0.2)


def test_what_is_longer_than_a_word_is_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted([([4, 5], [4, 5]), ([5, 4], [5, 4])])
    assert found.log_prob([4] * 3, [4] * 3) is not None
    monkeypatch.setattr(automaton, "LONGEST", 2)
    assert found.log_prob([4] * 3, [4] * 2) is None
    assert found.log_prob([4] * 2, [4] * 3) is None


def test_tokens_may_have_any_number_but_there_may_not_be_too_many() -> None:
    far = 2**31 - 1
    aligned = align([([far, 5], [far - 1]), ([far], [far - 1, 7])])
    assert {token for unit in named(aligned) for side in unit for token in side} == {far, 5, far - 1, 7}
    many = [(list(range(first, first + 40)), list(range(first, first + 40))) for first in range(0, 60_000, 40)]
    with pytest.raises(UserError, match="60,000 and 60,000 different tokens are too many; they are for letters"):
        align(many)


def test_of_too_many_pairs_the_first_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [([4, 5], [4, 5])] * 5
    assert len(align(pairs).rows) == 5
    monkeypatch.setattr(aligning, "MOST", 3 * len(aligning._edges(2, 2)))
    assert len(align(pairs).rows) == 3
    monkeypatch.setattr(aligning, "CHUNK", 1)  # a lattice for each
    assert len(align(pairs).rows) == 3


@pytest.mark.parametrize(("S", "T"), [(1, 1), (1, 2), (2, 4), (3, 1), (4, 6)])
def test_every_edge_is_on_some_cut(S: int, T: int) -> None:
    expected = set()
    for cut in cuts([4] * S, [4] * T):
        i = j = 0
        for source, target in cut:
            expected.add((i, j, len(source), len(target)))
            i, j = i + len(source), j + len(target)
    assert set(aligning._edges(S, T)) == expected
