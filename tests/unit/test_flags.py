"""Flags: warnings about an answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_language_model import make
from untrained_models import TARGET, LogitBias, untrained_generator, untrained_model

from antiphon.data.corpus import Ragged
from antiphon.data.tokenizers import EOS
from antiphon.errors import ModelFolderError
from antiphon.inference.ensemble import ensemble_of
from antiphon.inference.flags import (
    FlagLimits,
    learn_limits,
    longest_repetition,
    longest_repetitions,
    missing_flags,
    repetition_flags,
    unattended_flags,
)
from antiphon.inference.generator import Generator
from antiphon.model_folder import load_flag_limits
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
    assert repetition_flags(tokens, FlagLimits()) == ([] if said is None else [f"repetition: {said} again and again"])


@given(st.lists(st.lists(st.integers(0, 2), max_size=9), min_size=1, max_size=9), st.integers(1, 6))
def test_the_longest_repetition_of_each_row(rows: list[list[int]], period: int) -> None:
    """A row does not continue the one before it."""
    found = longest_repetitions(Ragged.of(rows).ids, Ragged.of(rows).offsets, period)
    assert found.tolist() == [longest_repetition(tuple(row), period) for row in rows]


LEFT, JUMP, RUN = 5, 6, 7
AROUND = [[*(LEFT, JUMP) * 4 * times, RUN] for times in (1, 2, 3)]  # jump around left once, twice, thrice
USUAL = FlagLimits().repetition


@pytest.mark.parametrize(
    ("targets", "limits"),
    [
        ([], USUAL),
        ([[LEFT, JUMP, RUN]] * 9, USUAL),
        (AROUND * 3, (7, 24, 8, 24, 14, 24)),
        ([*AROUND * 2, *[[RUN]] * 20], (7, 16, 8, 16, 14, 17)),  # the longest occurs only twice
        ([[RUN] * 30] * 2 + [[LEFT]] * 10, USUAL),
        ([[RUN] * 30] * 3, (30,) * 6),
        ([[RUN] * 30] * 3 + [[LEFT]] * 59_997, USUAL),  # one target in 20,000
    ],
)
def test_limits_are_what_the_targets_do(targets: list[list[int]], limits: tuple[int, ...]) -> None:
    assert learn_limits(Ragged.of(targets)).repetition == limits


def test_right_answers_are_not_flagged_and_longer_loops_are() -> None:
    limits = learn_limits(Ragged.of(AROUND * 3))
    for target in AROUND:
        assert repetition_flags(tuple(target), limits) == []
    assert repetition_flags(tuple(AROUND[0]), FlagLimits()) == ["repetition: 2 tokens again and again"]
    assert repetition_flags((LEFT, JUMP) * 13, limits) == ["repetition: 2 tokens again and again"]
    assert repetition_flags((LEFT,) * 8, limits) == ["repetition: a token again and again"]


def test_limits_are_kept_in_the_model_folder(tmp_path: Path) -> None:
    assert load_flag_limits(tmp_path) == FlagLimits(), "an older folder has no such file"
    limits = FlagLimits((9, 10, 11, 12, 15, 18))
    limits.save(tmp_path)
    assert load_flag_limits(tmp_path) == limits
    (tmp_path / "flags.json").write_text('{"repetition": "no"}')
    with pytest.raises(ModelFolderError, match=r"flags\.json: damaged; copy it again, or remove it for the default"):
        load_flag_limits(tmp_path)


def test_a_model_uses_its_own_limits() -> None:
    loaded = untrained_model(LogitBias(end=-100.0))
    patient = replace(loaded, flag_limits=FlagLimits((99,) * 6))
    plain, own = (Generator(each).generate("a b c", max_length=20).flags for each in (loaded, patient))
    assert [flag for flag in plain if flag not in own] == ["repetition: a token again and again"]
    assert ensemble_of([patient, loaded], "arithmetic").flag_limits == patient.flag_limits


@pytest.mark.parametrize("beam", [1, 3])
def test_an_empty_answer_has_a_flag(beam: int) -> None:
    ended = untrained_generator(LogitBias(end=100.0)).generate("a b c", beam=beam)
    assert (ended.text, ended.flags[0]) == ("", "empty answer: nothing was written")
    assert not any(flag.startswith("empty answer") for flag in untrained_generator().generate("a b c").flags)


def test_a_text_that_is_not_continued_has_a_flag() -> None:
    generator = make()
    with torch.no_grad():
        generator.model.decoder.output.bias[EOS] += 100.0
    assert generator.generate("abc").flags == ["empty answer: nothing was written"]


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
