"""Every row of the textbook is true: the class is there, its file has the formula, the configuration selects it."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch import nn

from antiphon.build import ALIGNMENTS, DECODERS, ENCODERS, MODELS, SCORES, build_model
from antiphon.config.read import read_config

TEXT = (Path(__file__).parents[2] / "docs" / "textbook.md").read_text("utf-8")


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    number: str
    concept: str
    formula: str
    place: str
    settings: list[str]


def rows() -> list[Row]:
    found = []
    for line in TEXT.split("\n"):
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0] not in ("#", "---"):
            number, concept, formula, place, settings = cells
            found.append(Row(number, concept, formula.strip("`"), place.strip("`"), re.findall(r"`([^`]+)`", settings)))
    return found


ROWS = rows()


def named(place: str) -> object:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def test_the_table_is_read() -> None:
    numbers = {row.number for row in ROWS}
    assert {"E1", "E2", "C5", "A1", "A2", "A3", "R1", "S1", "S2", "S3"} <= numbers


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.concept)
def test_class_and_formula_are_there(row: Row) -> None:
    module = inspect.getmodule(named(row.place))
    assert module is not None
    assert module.__name__ == row.place.split(":")[0]
    assert row.formula in " ".join(inspect.getsource(module).split())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.concept)
def test_the_configuration_selects_the_class(row: Row) -> None:
    config = read_config("reverse", row.settings)
    for setting in row.settings:
        path, _, value = setting.partition("=")
        section: object = config
        for key in path.split("."):
            section = getattr(section, key)
        assert str(section).lower() == value
    chosen = named(row.place)
    if isinstance(chosen, type) and issubclass(chosen, nn.Module):
        model = build_model(config.model, source_tokens=8, target_tokens=8)
        assert any(isinstance(module, chosen) for module in model.modules())


def test_everything_in_build_has_a_row() -> None:
    """What `build.py` lists is in the textbook."""
    settings = {setting for row in ROWS for setting in row.settings}
    wanted = {
        *(f"model.encoder.kind={name}" for name in ENCODERS),
        *(f"model.context.score={name}" for name in SCORES),
        *(f"model.context.alignment={name}" for name in ALIGNMENTS),
        *(f"model.decoder.kind={name}" for name in DECODERS),
        *(f"model.kind={name}" for name in MODELS),
    }
    assert wanted - settings == set()
