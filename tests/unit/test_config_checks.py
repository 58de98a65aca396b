"""Combinations that do not go together are named with both values and the way out."""

from __future__ import annotations

import pytest

from antiphon.config.checks import check_config
from antiphon.config.problems import fill_kinds
from antiphon.config.read import put
from antiphon.config.schema import Config

GOOD = [
    [],
    ["model.context.score=dot", "model.decoder.size=512"],
    ["model.context.score=dot", "model.encoder.bidirectional=false"],
    ["model.context.score=bilinear"],
    ["model.context.size=32"],
    ["training.momentum=0.9", "training.optimizer=sgd"],
    ["training.plateau_factor=0.1", "training.schedule=plateau"],
    ["training.warmup=10", "training.schedule=constant"],
    ["training.metric=bleu"],
    ["data.target.column=[1, 2]"],
    ["data.source.tokens=words"],
    ["data.shared_vocabulary=true"],
]
BAD = [
    (["model.context.score=dot"], ["model.context.score", "256", "512", "bilinear"]),
    (["model.context.score=dot", "model.decoder.kind=luong"], ["model.context.score", "256", "512", "bilinear"]),
    (["model.context.score=bilinear", "model.context.size=32"], ["model.context.size", "32", "bilinear", "null"]),
    (["training.momentum=0.9"], ["training.momentum", "0.9", "adamw", "sgd"]),
    (["training.plateau_factor=0.1"], ["training.plateau_factor", "0.1", "inverse-sqrt", "0.5"]),
    (["training.plateau_patience=5"], ["training.plateau_patience", "5", "inverse-sqrt", "2"]),
    (["data.shared_vocabulary=true", "data.source.tokens=words"], ["data.source.tokens words", "characters"]),
    (["data.shared_vocabulary=true", "data.source.vocabulary=5"], ["data.source.vocabulary 5", "8000"]),
    (["data.source.column=[0, 1]"], ["data.source.column", "list of 2"]),
    (["data.target.column=-1"], ["column -1", "from 0"]),
    ([f"training.seed={2**63}"], ["training.seed", str(2**63)]),
]


def made(overrides: list[str]) -> Config:
    data = {"data": {"train": "pairs.tsv"}}
    for override in overrides:
        assert put(data, override) == []
    return Config.model_validate(fill_kinds(data))


@pytest.mark.parametrize("overrides", GOOD, ids=" ".join)
def test_what_goes_together(overrides: list[str]) -> None:
    assert check_config(made(overrides)) == []


@pytest.mark.parametrize(("overrides", "words"), BAD)
def test_what_does_not(overrides: list[str], words: list[str]) -> None:
    [problem] = check_config(made(overrides))
    for word in words:
        assert word in problem


def test_all_combinations_are_reported_together() -> None:
    overrides = [override for override, _ in BAD[3:6] for override in override]
    assert len(check_config(made(overrides))) == 3
