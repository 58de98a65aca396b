"""Parts of a network that reads arrays, from another run: the front belongs to the encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from feature_tables import values, write_table
from tiny_generators import tiny_folder
from torch import Tensor

from antiphon.config.schema import Config
from antiphon.errors import ConfigError
from antiphon.model_folder import LoadedModel, fresh_model, load_model
from antiphon.training.display import Display
from antiphon.training.run import train_run
from antiphon.training.transfer import transfer_weights


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def soft(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "soft"
    train_run(Config.model_validate(values(table, max_updates=3)), run, display=Display(), fresh=False)
    return run


def beginning_with(run: Path, table: Path, **model: Any) -> Config:  # noqa: ANN401 (any key of model)
    written = values(table, max_updates=3)
    parts = {
        name: {**written["model"][name], **model.pop(name, {}), "from": str(run)} for name in ("encoder", "decoder")
    }
    return Config.model_validate({**written, "model": {**parts, **model}})


def filled(config: Config, there: LoadedModel) -> tuple[dict[str, Tensor], list[str]]:
    model, said = fresh_model(config, there.source, there.target_tokenizer), list[str]()
    transfer_weights(model, config, there.source, there.target_tokenizer, said.append)
    return model.state_dict(), said


def test_hard_attention_begins_with_soft(soft: Path, table: Path) -> None:
    there = load_model(soft)
    weights, said = filled(beginning_with(soft, table, context={"alignment": "hard"}), there)
    assert weights.keys() - there.model.state_dict().keys() == {"decoder.context.alignment.baseline"}  # of rewards
    assert all(torch.equal(weights[name], tensor) for name, tensor in there.model.state_dict().items())
    assert [sentence.split(": ")[0] for sentence in said] == ["model.encoder.from", "model.decoder.from"]
    assert "new (" not in said[0]
    assert "1 new (context)" in said[1]


def test_a_frozen_encoder_stays_with_its_front(soft: Path, table: Path, tmp_path: Path) -> None:
    config = beginning_with(soft, table, encoder={"freeze": True})
    train_run(config, tmp_path / "run", display=Display(), fresh=False)
    before, after = load_model(soft).model.state_dict(), load_model(tmp_path / "run").model.state_dict()
    same = {name for name, tensor in after.items() if torch.equal(tensor, before[name])}
    assert {name for name in after if name.startswith(("source.", "encoder."))} <= same
    assert any(name.startswith("decoder.") for name in after.keys() - same)


def test_another_source_is_refused(soft: Path, table: Path, tmp_path: Path) -> None:
    text = tiny_folder("bahdanau", tmp_path / "text")
    config = beginning_with(Path(text), table)
    with pytest.raises(ConfigError) as caught:
        filled(config, load_model(soft))
    said = f"model.encoder.from: {text} reads a source of kind text, here it is features; give another run, or null"
    assert said in caught.value.problems


def test_another_front_is_refused(soft: Path, table: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        filled(beginning_with(soft, table, front={"kind": "linear", "stack": 2}), load_model(soft))
    assert f"make data.source, model.front and model.encoder as in {soft}/config.yaml" in caught.value.problems[0]
