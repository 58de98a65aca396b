"""Old spellings of keys are still read, with a notice that shows the new one."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from antiphon.config.load import MIGRATED, migrate, put, read_config
from antiphon.config.schema import Config
from antiphon.config.yaml_text import config_diff, explained_yaml, flat
from antiphon.errors import RunError
from antiphon.training.run_folder import RunFolder, allowed_changes

FEATURES, AUDIO = {"source": {"kind": "features"}}, {"source": {"kind": "audio"}}
TRANSFORMER = {"kind": "transformer"}
LEARNT = {"kind": "transformer", "positions": "learnt"}
# Old key → a value other than its default, and what else the configuration needs for it.
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "data.source.time_masks": (2, {"data": FEATURES}),
    "data.source.time_width": (7, {"data": {"source": {"kind": "features", "time_masks": 1}}}),
    "data.source.mel_masks": (2, {"data": AUDIO}),
    "data.source.mel_width": (7, {"data": {"source": {"kind": "audio", "mel_masks": 1}}}),
    "data.source.value_masks": (2, {"data": FEATURES}),
    "data.source.value_width": (1, {"data": {"source": {"kind": "features", "value_masks": 1}}}),
    "model.encoder.ngram_rows": (50, {"model": {"encoder": {"ngrams": [3, 5]}}}),
    "model.encoder.longest": (600, {"model": {"encoder": LEARNT}}),
    "model.decoder.longest": (600, {"model": {"decoder": LEARNT}}),
    "model.context.entropy": (0.5, {"model": {"context": {"alignment": "hard"}}}),
    "model.context.baseline": (0.5, {"model": {"context": {"alignment": "hard"}}}),
    "training.weight_decay": (0.1, {}),
    "training.momentum": (0.5, {"training": {"optimizer": "sgd"}}),
    "training.warmup": (7, {"training": {"schedule": "cosine"}}),
    "training.plateau_factor": (0.1, {"training": {"schedule": "plateau"}}),
    "training.plateau_patience": (5, {"training": {"schedule": "plateau"}}),
    "training.diagonal": (1.5, {}),
    "training.diagonal_width": (0.5, {"training": {"diagonal": 1.0}}),
    "training.noise.span": (2.5, {"training": {"noise": {"infill": 0.2}}}),
    "training.sampling": (0.3, {}),
    "training.sampling_schedule": ("exponential", {"training": {"sampling": 0.3}}),
    "training.sampling_updates": (9, {"training": {"sampling": 0.3}}),
}


def with_key(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 (any YAML value)
    """A copy of a configuration with one more key, as it is written in a file."""
    copy = yaml.safe_load(yaml.safe_dump({"data": {}, **values}))
    copy["data"].setdefault("train", "a.tsv")
    *sections, key = path.split(".")
    section = copy
    for name in sections:
        section = section.setdefault(name, {})
    section[key] = value
    return dict(copy)


def test_every_old_key_is_here() -> None:
    assert set(CASES) == set(MIGRATED)


@pytest.mark.parametrize("old", CASES)
def test_in_a_file(old: str, tmp_path: Path) -> None:
    new, default = MIGRATED[old]
    value, needed = CASES[old]
    assert value != default
    path = tmp_path / "old.yaml"
    path.write_text(yaml.safe_dump(with_key(needed, old, value)))
    with pytest.warns(FutureWarning) as noticed:
        config = read_config(path)
    notice = f"{old} is now {new}; the old key is still read, but write {new}: {value}"
    assert notice in [str(warning.message) for warning in noticed]
    assert flat(config.model_dump(by_alias=True))[new] == value
    path.write_text(explained_yaml(config))
    assert read_config(path) == config  # without a notice, which would be an error here


@pytest.mark.parametrize("old", CASES)
def test_in_an_override(old: str) -> None:
    new, _ = MIGRATED[old]
    value, needed = CASES[old]
    data = with_key(needed, "data.train", "a.tsv")
    migrate(data)
    assert put(data, f"{old}={value}") == []
    assert migrate(data)[-1].startswith(f"{old} is now {new};")
    assert flat(Config.model_validate(data).model_dump(by_alias=True))[new] == value


@pytest.mark.parametrize("old", CASES)
def test_an_old_default_fits_every_kind(old: str) -> None:
    """Folders of older versions have every key written out, whatever the kinds are."""
    kind = {"mel": AUDIO, "tim": FEATURES, "val": FEATURES}.get(old.rsplit(".", 1)[1][:3], {})
    data, plain = with_key({"data": kind}, old, MIGRATED[old][1]), with_key({"data": kind}, "data.train", "a.tsv")
    migrate(data)
    assert Config.model_validate(data) == Config.model_validate(plain)


@pytest.mark.parametrize(
    ("recipe", "override", "section"),
    [
        ("read", "training.diagonal=0", "guided_attention"),
        ("read", "training.warmup=400", None),
    ],
)
def test_a_default_in_an_override_goes_back_to_it(recipe: str, override: str, section: str | None) -> None:
    with pytest.warns(FutureWarning):
        config = read_config(recipe, [override])
    assert config.training.schedule.warmup == (100 if section else 400)
    assert (config.training.guided_attention is None) == (section is not None)


def test_items_of_lists_are_migrated() -> None:
    encoders = [{"kind": "transformer", "positions": "learnt", "longest": 9}, {"longest": 8, "kind": "cnn"}]
    data: dict[str, Any] = {"model": {"encoder": encoders}, "data": {"source": [{"time_masks": 1}, {"column": 1}]}}
    migrate(data)
    assert [part["positions"] for part in encoders] == [{"kind": "learnt", "longest": 9}, {"longest": 8}]
    assert data["data"]["source"] == [{"masks": {"time": {"count": 1}}}, {"column": 1}]


def test_a_section_that_is_wrong_stays_so() -> None:
    data: dict[str, Any] = {"training": {"optimizer": 3, "momentum": 0.5}}
    migrate(data)
    assert "momentum" not in data["training"]
    assert migrate("no section") == []


def test_a_shorthand_and_a_section_are_the_same() -> None:
    overrides = ["training.schedule=cosine", "training.schedule.warmup=100", "model.context.alignment=hard"]
    config = read_config("reverse", overrides)
    assert (config.training.schedule.kind, config.training.schedule.warmup) == ("cosine", 100)
    same = read_config(
        "reverse", ["training.schedule={kind: cosine, warmup: 100}", "model.context={alignment: {kind: hard}}"]
    )
    assert config_diff(same, config) == []


def test_a_kind_alone_keeps_the_other_keys_of_its_section() -> None:
    assert read_config("reverse", ["training.schedule=constant"]).training.schedule.warmup == 50


def test_the_example_of_the_design_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "design.yaml"
    path.write_text("""\
data:
  train: pairs/train.tsv
  dev: pairs/dev.tsv
  source: {kind: text, column: 0, tokens: characters}
  target: {kind: text, column: 1, tokens: words}
model:
  kind: encoder-decoder
  encoder: {kind: lstm, layers: 2, size: 256, bidirectional: true, dropout: 0.2}
  context: {kind: attention, score: additive, alignment: soft}
  decoder: {kind: bahdanau, cell: lstm, layers: 1, size: 256}
training: {epochs: 20, batch_tokens: 4096, optimizer: adamw, learning_rate: 1.0e-3, schedule: {kind: inverse-sqrt, warmup: 400}, seed: 1}
decoding: {beam: 5, length_penalty: 1.0}
""")  # noqa: E501
    assert read_config(path).training == Config.model_validate({"data": {"train": "a"}}).training


def test_a_folder_is_read_without_notices(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("data: {train: a.tsv}\ntraining: {warmup: 3}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_config(path, notices=False).training.schedule.warmup == 3


def test_a_run_of_an_older_version_can_be_resumed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("data: {train: a.tsv}\ntraining: {warmup: 3, momentum: 0.0, diagonal: 0.0}\n")
    new = tmp_path / "new.yaml"
    new.write_text("data: {train: a.tsv}\ntraining: {schedule: {warmup: 3}}\n")
    allowed_changes(RunFolder(tmp_path), read_config(new))
    with pytest.raises(RunError, match=r"training.schedule.warmup: 3 in the run, 4 now"):
        allowed_changes(RunFolder(tmp_path), read_config(new, ["training.schedule.warmup=4"]))
