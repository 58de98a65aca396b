"""The positional encoding: whose it is, the lectures' formula in it, and the picture."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from tiny_generators import BLOCKS, MODELS, tiny_generator

from antiphon.errors import UserError
from antiphon.plots.positional_encoding import draw_positions, position_tables


def test_the_table_is_the_formula() -> None:
    made = tiny_generator("transformer")
    tables = position_tables(made.model, made.config)
    assert list(tables) == ["sinusoidal positions, encoder and decoder"]
    [table] = tables.values()
    assert table.shape == (100, 8)
    for position, pair in np.ndindex(100, 4):
        angle = position / 10000 ** (2 * pair / 8)
        assert table[position, 2 * pair] == pytest.approx(math.sin(angle), abs=1e-5)
        assert table[position, 2 * pair + 1] == pytest.approx(math.cos(angle), abs=1e-5)


def test_a_learnt_table_is_whole_and_as_learnt() -> None:
    made = tiny_generator("convolutions", source={"tokens": "words", "max_length": 511})
    tables = position_tables(made.model, made.config)
    assert list(tables) == ["learnt positions, encoder"]
    np.testing.assert_array_equal(
        tables["learnt positions, encoder"],
        made.model.encoder.positions.table.weight.detach(),  # type: ignore[union-attr, operator]
    )
    assert tables["learnt positions, encoder"].shape == (512, 8)


@pytest.mark.parametrize(
    ("kind", "data", "part", "rows"),
    [
        ("convolutions", {}, "encoder", 31),  # data.source.max_length + 1
        ("learnt-lm", {}, "decoder", 31),
        ("learnt-lm", {"window": 16}, "decoder", 17),
        ("learnt-concatenated", {}, "decoder", 62),
    ],
)
def test_of_a_learnt_table_what_training_can_reach(
    kind: str, data: dict[str, int], part: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt = {**BLOCKS, "layers": 1, "positions": "learnt"}
    monkeypatch.setitem(MODELS, "learnt-lm", {"kind": "language-model", "decoder": learnt})
    monkeypatch.setitem(MODELS, "learnt-concatenated", {"kind": "concatenated", "decoder": learnt})
    made = tiny_generator(kind, **data)
    [(name, table)] = position_tables(made.model, made.config).items()
    assert name == f"learnt positions, {part}: the {rows} of 512 that training can reach"
    whole = getattr(made.model, part).positions.table.weight.detach()
    np.testing.assert_array_equal(table, whole[:rows])


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("mixed", ["sinusoidal positions, encoder"]),
        ("transformer-lm", ["sinusoidal positions, decoder"]),
        ("bahdanau", []),
        ("rnn-lm", []),
    ],
)
def test_who_has_positions(kind: str, names: list[str]) -> None:
    made = tiny_generator(kind)
    assert list(position_tables(made.model, made.config)) == names


def test_white_is_nothing_and_the_ends_are_as_dark(tmp_path: Path) -> None:
    draw_positions({"t": np.array([[-0.5, 0.0, 0.25]])}, tmp_path / "a.png")
    pixels = np.rint(np.asarray(imread(tmp_path / "a.png"))[:, :, :3] * 255).astype(int)
    middle = pixels[pixels.shape[0] // 2]
    wide = pixels.shape[1]
    below, nothing = middle[round(0.2 * wide)], middle[round(0.48 * wide)]
    assert tuple(below) == (0x8F, 0x3B, 0x1B)  # the lowest value, the end of the scale
    assert min(nothing) >= 253
    assert tuple(middle[round(0.75 * wide)]) != (0x12, 0x3F, 0x6B)  # half of it, on the other side


def test_names_axes_and_scale_are_written(tmp_path: Path) -> None:
    draw_positions({"one": np.eye(4), "two $x$": -0.3 * np.eye(9)}, tmp_path / "a.svg")
    texts = re.findall(r"<!-- (.*?) -->", (tmp_path / "a.svg").read_text())
    assert {"one", "two $x$", "position", "dimension", "1", "−1", "0.3", "−0.3"} <= {*texts}


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one position"):
        draw_positions({}, tmp_path / "a.png")
    with pytest.raises(UserError, match=r"\.png or \.svg"):
        draw_positions({"one": np.eye(2)}, tmp_path / "a.gif")
