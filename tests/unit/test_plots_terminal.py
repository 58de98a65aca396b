"""Attention in the terminal: right shades in right columns, never wider than asked."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from antiphon.plots.terminal import attention_text


def test_shades_stand_under_their_labels() -> None:
    drawn = attention_text(np.array([[1.0, 0.0, 0.0], [0.0, 0.3, 0.6]]), ["a", "b", "c"], ["X", "YY"], width=40)
    assert drawn.split("\n")[:3] == ["   a b c", "X  ██· ·", "YY · ▒▒▓▓"]


def test_wide_letters_take_two_columns() -> None:
    lines = attention_text(np.eye(2), ["你", "好"], ["世界", "x"], width=40).split("\n")
    assert lines[:3] == ["     你 好", "世界 ██ ·", "x    ·  ██"]


def test_long_words_stand_upright_above_their_column() -> None:
    source = ["one", "encyclopaedia", "x"]
    lines = attention_text(np.eye(3), source, ["a", "b", "c"], width=14).split("\n")
    column = {lines[i].find("█"): i for i in range(len(lines) - 3, len(lines))}
    assert sorted(column) == [2, 5, 8]
    head = [line.ljust(14) for line in lines[:-3]]
    assert "".join(line[2] for line in head).strip() == "one"
    assert "".join(line[5] for line in head).strip() == "encyclopaed…"
    assert head[-1][8] == "x"


def test_too_wide_becomes_a_list_of_the_strongest() -> None:
    weights = np.full((2, 100), 0.001)
    weights[0, 41], weights[0, 7] = 0.7, 0.2
    lines = attention_text(weights, [f"w{i}" for i in range(100)], ["a", "b"], width=60).split("\n")
    assert lines == ["a ← w41 (42) 70%, w7 (8) 20%", "b ← spread over all tokens"]


def test_colour_marks_the_largest_and_changes_nothing_else() -> None:
    weights = np.array([[0.2, 0.8], [0.9, 0.1]])
    plain = attention_text(weights, ["a", "b"], ["x", "y"])
    coloured = attention_text(weights, ["a", "b"], ["x", "y"], colour=True)
    assert "\x1b" not in plain
    assert re.findall("\x1b\\[35m(.*?)\x1b", coloured) == ["██", "██"]
    stripped = re.sub("\x1b\\[[0-9]+m", "", coloured)
    assert [line.rstrip() for line in stripped.split("\n")] == plain.split("\n")


def test_model_text_cannot_steer_the_terminal() -> None:
    drawn = attention_text(np.ones((1, 1)), ["\x1b[2J"], ["\u202e\r\n"])
    assert "␛[2J" in drawn
    assert not set(drawn) & set("\x1b\r\u202e")


def test_nothing_and_misfits() -> None:
    assert attention_text(np.zeros((0, 1)), ["a"], []) == "(nothing to draw)"
    with pytest.raises(ValueError, match="do not fit"):
        attention_text(np.zeros((1, 1)), ["a"], ["b", "c"])


TOKENS = st.lists(st.text(max_size=12), min_size=1, max_size=30)


@given(source=TOKENS, target=TOKENS, width=st.integers(24, 120))
def test_never_wider_than_the_terminal(source: list[str], target: list[str], width: int) -> None:
    weights = np.random.default_rng(len(source)).dirichlet(np.ones(len(source)), size=len(target))
    lines = attention_text(weights, source, target, width=width).split("\n")
    assert len(lines) >= len(target)
    assert max(cell_len(line) for line in lines) <= width
