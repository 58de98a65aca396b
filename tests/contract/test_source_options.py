"""Every key of a source that is no text, and of every front, does what its description says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import BaseModel
from source_cases import CASES, INPUTS, Case, batch
from source_files import write_file
from torch import Tensor

from antiphon.config.schema import DataConfig
from antiphon.config.sources import (
    AudioConfig,
    AudioMasksConfig,
    BandMaskConfig,
    CellsConfig,
    FeatureMasksConfig,
    FeaturesConfig,
    FrameCellsConfig,
    FramesConfig,
    ImageConfig,
    LinearConfig,
    PatchesConfig,
    SubsampledConfig,
    TimeMaskConfig,
    ValueMaskConfig,
)
from antiphon.data.build_source import file_source
from antiphon.data.prepare import Prepared, prepare
from antiphon.data.source import Array
from antiphon.errors import DataError

ONLY_CHOICE = object()
IN_TABLES = object()  # tested below with whole tables, for every kind
TABLE = {"kind": ONLY_CHOICE, "column": IN_TABLES, "folder": IN_TABLES, "max_length": IN_TABLES}
PICTURE = {"colour": [False], "height": [16], "shift": [0.4], "scale": [0.4], "contrast": [0.8]}
# Section, key → values other than the usual ones, each of which changes what is read in training.
READ_EFFECTS: dict[type[BaseModel], dict[str, Any]] = {
    ImageConfig: {**TABLE, **PICTURE, "width": [16, None]},
    FramesConfig: {**TABLE, **PICTURE, "width": [16]},
    AudioConfig: {
        **TABLE,
        "rate": [8000],
        "mels": [20],
        "window": [50.0],
        "step": [20.0],
        "masks": [{"time": {"count": 3}}, {"mels": {"count": 3}}],
    },
    FeaturesConfig: {
        **TABLE,
        "ordered": [False],
        "normalise": [True],
        "masks": [{"time": {"count": 3}}, {"values": {"count": 3}}],
    },
}
# The masks of a source: axis → the section of its masks, and a width other than the usual.
MASK_EFFECTS: dict[type[BaseModel], dict[str, tuple[type[BaseModel], int]]] = {
    AudioConfig: {"time": (TimeMaskConfig, 2), "mels": (BandMaskConfig, 2)},
    FeaturesConfig: {"time": (TimeMaskConfig, 2), "values": (ValueMaskConfig, 1)},
}
TRAINING = ("shift", "scale", "contrast", "masks")  # keys for training only
FRONT_EFFECTS: dict[type[BaseModel], dict[str, Any]] = {
    CellsConfig: {
        "channels": [[3, 5], [4]],
        "blocks": [0],
        "wide": [1],
        "columns": [True],
        "whole": [True],
        "dropout": [0.4],
    },
    PatchesConfig: {"patch": [2], "dropout": [0.4]},
    FrameCellsConfig: {"channels": [[5], [3, 4]], "blocks": [1], "dropout": [0.4]},
    SubsampledConfig: {"channels": [6], "kernel": [5], "dropout": [0.4]},
    LinearConfig: {"stack": [2], "dropout": [0.4]},
}
FRONT_CASES = {
    CellsConfig: "cells_none",
    PatchesConfig: "patches_none",
    FrameCellsConfig: "frame-cells_none",
    SubsampledConfig: "subsampled_none",
    LinearConfig: "linear_none",
}
SOURCE_EFFECTS = {
    **READ_EFFECTS,
    AudioMasksConfig: MASK_EFFECTS[AudioConfig],
    FeatureMasksConfig: MASK_EFFECTS[FeaturesConfig],
    **dict.fromkeys((TimeMaskConfig, BandMaskConfig, ValueMaskConfig), ("count", "width")),
    **{section: {"kind": ONLY_CHOICE, **keys} for section, keys in FRONT_EFFECTS.items()},
}


def read(section: type[BaseModel], path: str, *, seed: int | None, **keys: Any) -> list[Array]:  # noqa: ANN401
    """As training reads it, a few times; without a seed as it is."""
    source = file_source(section.model_validate(keys), [path])
    seeds = [None] if seed is None else range(seed, seed + 5)
    return [source.read(path, None if one is None else np.random.default_rng(one)) for one in seeds]


def alike(left: list[Array], right: list[Array]) -> bool:
    return all(one.shape == other.shape and np.allclose(one, other) for one, other in zip(left, right, strict=True))


READ_KEYS = [
    pytest.param(section, key, value, id=f"{section.__name__}.{key}={value}")
    for section, keys in READ_EFFECTS.items()
    for key, choices in keys.items()
    if isinstance(choices, list)
    for value in choices
]


@pytest.mark.parametrize(("section", "key", "value"), READ_KEYS)
def test_the_key_changes_what_is_read(section: type[BaseModel], key: str, value: Any, tmp_path: Path) -> None:  # noqa: ANN401
    path = write_file(section, tmp_path, "a", 40)
    usual, other = (read(section, path, seed=1, **more) for more in ({}, {key: value}))
    assert not alike(usual, other)
    if key in TRAINING:
        clean, same = (read(section, path, seed=None, **more) for more in ({}, {key: value}))
        assert alike(clean, same)


@pytest.mark.parametrize("section", MASK_EFFECTS, ids=lambda section: section.__name__)
def test_masks_have_a_count_and_a_width(section: type[BaseModel], tmp_path: Path) -> None:
    path = write_file(section, tmp_path, "a", 40)
    for axis, (mask, width) in MASK_EFFECTS[section].items():
        assert set(mask.model_fields) == {"count", "width"}
        one, many, narrow = (
            read(section, path, seed=1, masks={axis: values})
            for values in ({"count": 1}, {"count": 3}, {"count": 3, "width": width})
        )
        assert not alike(one, many)
        assert not alike(many, narrow)


def prepared(section: type[BaseModel], place: Path, **source: Any) -> Prepared:  # noqa: ANN401
    """Three files of unequal length in the second column, the name of another file in the first."""
    (place / "tables").mkdir(parents=True, exist_ok=True)
    names = [Path(write_file(section, place / "tables" / "in", str(n), 60 + 30 * n)).name for n in range(3)]
    lines = [f"in/{name}\t{other}\t{n}" for n, (name, other) in enumerate(zip(names, reversed(names), strict=True))]
    for part in ("train", "dev"):
        (place / "tables" / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    data = {
        "train": str(place / "tables" / "train.tsv"),
        "dev": str(place / "tables" / "dev.tsv"),
        "source": {"kind": section.model_fields["kind"].default, **source},
        "target": {"column": 2},
    }
    return prepare(DataConfig.model_validate(data), lambda _: None)


@pytest.mark.parametrize("section", READ_EFFECTS, ids=lambda section: section.__name__)
def test_columns_folders_and_lengths(section: type[BaseModel], tmp_path: Path) -> None:
    longer = {"width": None} if section is ImageConfig else {}
    usual = prepared(section, tmp_path, **longer)
    lengths = usual.train.source.lengths
    assert sorted(lengths.tolist()) == lengths.tolist()
    assert len(set(lengths.tolist())) == 3
    other = prepared(section, tmp_path, column=1, folder=str(tmp_path / "tables" / "in"), **longer)
    assert other.train.source.lengths.tolist() == lengths.tolist()[::-1]
    with pytest.raises(DataError, match="no such file"):
        prepared(section, tmp_path, column=1, **longer)
    shorter = prepared(section, tmp_path, max_length=int(lengths[1]), **longer)
    assert shorter.train.source.lengths.tolist() == lengths.tolist()[:2]
    assert shorter.facts["dropped"]["reasons"] == {f"source longer than {lengths[1]} positions": 2}


def learnt(case: Case) -> Tensor:
    """The output in training."""
    model = case.build().train()
    torch.manual_seed(1)
    with torch.no_grad():
        logits: Tensor = model(batch(case.rows()), INPUTS).logits
    return logits


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        pytest.param(section, key, value, id=f"{section.__name__}.{key}={value}")
        for section, keys in FRONT_EFFECTS.items()
        for key, values in keys.items()
        for value in values
    ],
)
def test_the_key_of_a_front_changes_what_comes_out(section: type[BaseModel], key: str, value: object) -> None:
    case = CASES[FRONT_CASES[section]]
    front = case.model.front
    assert type(front) is section
    changed = replace(case, model=case.model.model_copy(update={"front": front.model_copy(update={key: value})}))
    assert not torch.allclose(learnt(case), learnt(changed), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("section", SOURCE_EFFECTS, ids=lambda section: section.__name__)
def test_every_key_is_in_the_table(section: type[BaseModel]) -> None:
    assert set(SOURCE_EFFECTS[section]) == set(section.model_fields)
