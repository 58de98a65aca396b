"""A written configuration explains itself and reads back equal."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.config.load import read_config, recipe_names
from antiphon.config.networks import EncoderDecoderConfig, LuongConfig
from antiphon.config.schema import Config, DataConfig, TextConfig, TrainingConfig
from antiphon.config.yaml_text import config_diff, explained_yaml, parse_yaml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_reads_back_equal(name: str, tmp_path: Path) -> None:
    config = read_config(name)
    path = tmp_path / "written.yaml"
    path.write_text(explained_yaml(config))
    assert read_config(path) == config


@settings(max_examples=40, deadline=None)
@given(TEXT, TEXT, TEXT)
def test_any_path_and_any_column_name_reads_back_equal(train: str, source: str, target: str) -> None:
    data = DataConfig(train=[train, train], source=TextConfig(column=source), target=TextConfig(column=[target, 3]))
    text = explained_yaml(Config(data=data))
    assert Config.model_validate(parse_yaml(text, "")[0]).data == data
    assert Config.model_validate(yaml.safe_load(text)).data == data


@settings(max_examples=40, deadline=None)
@given(st.floats(min_value=1e-300, max_value=1e300))
def test_any_learning_rate_reads_back_equal(rate: float) -> None:
    config = Config(data=DataConfig(train="a"), training=TrainingConfig(learning_rate=rate))
    assert Config.model_validate(parse_yaml(explained_yaml(config), "")[0]) == config


def test_every_key_stands_there_with_its_description() -> None:
    lines = explained_yaml(Config(data=DataConfig(train="a.tsv"))).split("\n")
    assert all("  # " in line for line in lines if line)
    for section in (DataConfig, TextConfig, TrainingConfig, EncoderDecoderConfig):
        for name, field in section.model_fields.items():
            key, said = f"{field.alias or name}:", str(field.description)
            assert any(line.lstrip().startswith(key) and said in line for line in lines)


def test_comments_of_a_section_are_aligned() -> None:
    sections = explained_yaml(Config(data=DataConfig(train="a.tsv"))).split("\n\n")
    assert len(sections) == 5
    for section in sections:
        assert len({line.index("# ") for line in section.strip().split("\n")}) == 1


def test_a_difference_names_the_key_and_both_values() -> None:
    old = Config(data=DataConfig(train="a.tsv"))
    new = old.model_copy(
        update={"training": TrainingConfig(learning_rate=0.002), "model": EncoderDecoderConfig(decoder=LuongConfig())}
    )
    assert config_diff(old, old) == []
    assert config_diff(old, new) == [
        ("model.decoder.kind", "bahdanau", "luong"),
        ("model.decoder.input_feeding", "not there", "false"),
        ("training.learning_rate", "0.001", "0.002"),
    ]
