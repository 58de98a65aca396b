"""Flags: warnings about an answer."""

from __future__ import annotations

import numpy as np
import pytest
from untrained_models import TARGET, LogitBias, untrained_generator

from antiphon.inference.flags import missing_flags, repetition_flags, unattended_flags
from antiphon.search.hypothesis import Hypothesis


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ((5,) * 7, None),
        ((5,) * 8, "a token"),
        ((1, 2, 3, *(5,) * 8, 2), "a token"),
        ((5, 6) * 3, None),
        ((5, 6) * 4, "2 tokens"),
        ((5, 6, 7) * 2 + (5, 6), None),
        ((5, 6, 7) * 3, "3 tokens"),
        ((9, 5, 6, 7, 8, 4, 3, *(5, 6, 7, 8, 4, 3) * 2), "6 tokens"),
        ((1, 2, 3, 4, 5, 6, 7) * 4, None),  # longer phrases are not looked for
        ((5, 5, 5, 5, 9, 5, 5, 5, 5), None),  # broken by another
        ((5, 6, 5, 6, 5, 6, 5, 7), None),
        ((), None),
    ],
)
def test_a_phrase_again_and_again(tokens: tuple[int, ...], said: str | None) -> None:
    assert repetition_flags(tokens) == ([] if said is None else [f"repetition: {said} again and again"])


SOURCE = ["a", "b", "c", "d", "</s>"]


def test_half_of_the_source_unseen() -> None:
    weights = np.array([[0.5, 0.04, 0.05, 0.2, 0.21], [0.5, 0.05, 0.0, 0.25, 0.2]])
    flag = "source not attended: 2 of 4 tokens were hardly attended to (b c)"
    assert unattended_flags(weights, SOURCE) == [flag]
    weights[0, 1] += 0.02  # 0.11 in all
    assert unattended_flags(weights, SOURCE) == []


def test_the_end_of_the_source_does_not_count() -> None:
    assert unattended_flags(np.array([[0.25, 0.25, 0.25, 0.25, 0.0]]), SOURCE) == []
    assert unattended_flags(np.array([[0.3, 0.3, 0.0, 0.0, 0.4]]), SOURCE)
    assert unattended_flags(np.array([[0.0, 1.0]]), ["a", "</s>"]) == []  # one token is no half
    assert unattended_flags(np.zeros((0, 5)), SOURCE) == []  # nothing was said


def test_at_most_ten_are_named() -> None:
    source = [*map(str, range(30)), "</s>"]
    [flag] = unattended_flags(np.eye(1, 31), source)
    assert flag.startswith("source not attended: 29 of 30 tokens")
    assert flag.endswith("(1 2 3 4 5 6 7 8 9 10 …)")


def test_what_was_required_and_is_not_there() -> None:
    best = Hypothesis(tuple(TARGET.encode("K L M")), (0.0, 0.0, 0.0), 0.0, finished=False)
    require = tuple(tuple(TARGET.encode(phrase)) for phrase in ("K L", "L K", "M", "N"))
    assert missing_flags(best, require, TARGET) == ["required: missing: 'L K', 'N'"]
    assert missing_flags(best, require[:1], TARGET) == []


def test_answers_carry_them() -> None:
    """A model that never ends repeats itself; with no weights to see, nothing is said of attention."""
    made = untrained_generator(LogitBias(end=-100.0))
    answer = made.generate("a b c", max_length=20)
    assert answer.flags[0] == "maximum length: stopped after 20 tokens without an end"
    assert any(flag.startswith("repetition: ") for flag in answer.flags)
    assert not any(flag.startswith("repetition") for flag in made.generate("a b c", max_length=20, no_repeat=2).flags)
    plain, unseen = (
        made.generate("a b c d e f", max_length=1),
        made.generate("a b c d e f", max_length=1, weights=False),
    )
    assert plain.weights is not None
    lost = int((plain.weights[:, :-1].sum(axis=0) < 0.1).sum())
    assert any(flag.startswith(f"source not attended: {lost} of 6") for flag in plain.flags) == (lost >= 3)
    assert not any(flag.startswith("source not attended") for flag in unseen.flags)
