"""Every row of the textbook is true: the class is there, its file has the formula, the configuration selects it."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest
from torch import nn

from antiphon.config.checks import check_config
from antiphon.config.load import read_config
from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.yaml_text import flat as flat_values
from antiphon.config.yaml_text import parse_override
from antiphon.models.build import ALIGNMENTS, DECODERS, ENCODERS, FRONT_ENDS, MODELS, SCORES, build_for

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
    wanted = "L1 L2 E1 E2 E3 E4 E5 C1 C2 C3 C4 C5 A1 A2 A3 A4 A5 T1 T2 T3 T4 T5 R1 R2 R3 R4 S1 S2 S3"
    assert set(wanted.split()) <= numbers


def flat(settings: list[str]) -> dict[str, object]:
    """`a.b={c: d}` and `a.b.c=d` are the same: {"a.b.c": "d"}."""
    found: dict[str, object] = {}
    for setting in settings:
        path, _, text = setting.partition("=")
        value, problems = parse_override(text)
        assert problems == []
        found |= (
            {f"{path}.{key}": inner for key, inner in flat_values(value).items()}
            if isinstance(value, dict)
            else {path: value}
        )
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.concept)
def test_class_and_formula_are_there(row: Row) -> None:
    module = importlib.import_module(row.place.split(":")[0])
    defined = named(row.place)
    assert getattr(defined, "__module__", module.__name__) == module.__name__
    assert row.formula in " ".join(inspect.getsource(module).split())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.concept)
def test_the_configuration_selects_the_class(row: Row) -> None:
    settings = [setting for setting in row.settings if not setting.startswith("antiphon ")]
    bases = {"language-model": "lm-lstm", "tagger": "tag"}
    base = next((name for kind, name in bases.items() if any(kind in setting for setting in settings)), "reverse")
    config = read_config(base, settings)
    values = flat_values(config.model_dump(by_alias=True))
    for key, value in flat(settings).items():  # a value alone may stand for the kind of a section, or its lengths
        assert value in (values.get(key), values.get(f"{key}.kind"), values.get(f"{key}.lengths"))
    assert check_config(config) == []
    chosen = named(row.place)
    if isinstance(chosen, type) and issubclass(chosen, nn.Module):
        model = build_for(config.model, config.data.sources, [8] * len(config.data.sources), target_tokens=8)
        assert any(isinstance(module, chosen) for module in model.modules())


def test_everything_in_build_has_a_row() -> None:
    """Everything that `models/build.py` lists is in the textbook."""
    settings = {f"{key}={value}" for row in ROWS for key, value in flat(row.settings).items()}
    wanted = {
        *(f"model.front.kind={name}" for name in FRONT_ENDS),
        *(f"model.encoder.kind={name}" for name in ENCODERS),
        *(f"model.context.score={name}" for name in SCORES),
        *(f"model.context.alignment={name}" for name in ALIGNMENTS),
        *(f"model.decoder.kind={name}" for name in DECODERS),
        *(f"model.kind={name}" for name in MODELS),
        *(f"model.tie={way}" for way in get_args(EncoderDecoderConfig.model_fields["tie"].annotation) if way != "none"),
    }
    assert wanted - settings == set()
    assert any(setting.startswith("model.encoder.ngrams=") for setting in settings), "beyond the lectures, but there"
