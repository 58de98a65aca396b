"""Files, recipes and overrides become a Config."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config.load import read_config, recipe_text, usable_part
from antiphon.config.networks import (
    BahdanauConfig,
    ConcatenatedConfig,
    ContextConfig,
    EncoderDecoderConfig,
    LuongConfig,
    MultiHeadConfig,
    PlainConfig,
    RecurrentEncoderConfig,
    StaticContextConfig,
)
from antiphon.config.yaml_text import parse_value, parse_yaml
from antiphon.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text("data:\n  train: pairs.tsv\n")
    return path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1.0e-3", 0.001),
        (".5", 0.5),
        ("3", 3),
        ("-3", -3),
        ("true", True),
        ("null", None),
        ("~", None),
        # YAML 1.1 would make false, eight, minutes and a date of these.
        ("no", "no"),
        ("010", "010"),
        ("12:30", "12:30"),
        ("2020-01-01", "2020-01-01"),
        (".inf", ".inf"),
        ("1e999", "1e999"),
        ("a.tsv", "a.tsv"),
    ],
)
def test_scalars_are_what_they_look_like(text: str, value: object) -> None:
    found, problems = parse_yaml(text, "")
    assert (found, type(found), problems) == (value, type(value), [])


def test_defaults_fill_what_the_file_leaves_out(file: Path) -> None:
    config = read_config(file)
    assert config.data.train == "pairs.tsv"
    assert config.model == EncoderDecoderConfig()


def test_overrides_change_values_and_make_sections(file: Path) -> None:
    config = read_config(file, ["training.learning_rate=1e-4", "data.train=[a.src, a.tgt]", "training.clip=null"])
    assert config.training.learning_rate == 1e-4
    assert config.training.clip is None
    assert config.data.train == ["a.src", "a.tgt"]


def test_the_last_override_wins(file: Path) -> None:
    assert read_config(file, ["training.seed=2", "training.seed=3"]).training.seed == 3


def test_a_decoder_without_kind_is_the_default_kind(file: Path) -> None:
    assert read_config(file, ["model.decoder.size=64"]).model.decoder == BahdanauConfig(size=64)
    assert type(EncoderDecoderConfig().decoder) is BahdanauConfig
    assert read_config(file, ["model.decoder.kind=luong"]).model.decoder == LuongConfig()


@pytest.mark.parametrize(
    ("model", "context"),
    [
        ("{decoder: {kind: plain}, context: {feed: start}}", StaticContextConfig(feed="start")),
        ("{decoder: {kind: plain}, context: {}}", StaticContextConfig()),
        ("{decoder: {kind: transformer}, context: {}}", MultiHeadConfig()),
        ("{decoder: {kind: transformer}}", MultiHeadConfig()),
    ],
)
def test_a_context_without_kind_is_one_that_the_decoder_can_use(file: Path, model: str, context: ContextConfig) -> None:
    config = read_config(file, [f"model={model}"]).model
    assert isinstance(config, EncoderDecoderConfig)
    assert config.context == context


def test_a_network_without_kind_is_plain(file: Path) -> None:
    config = read_config(file, ["model={kind: concatenated, decoder: {size: 64}}"]).model
    assert config == ConcatenatedConfig(decoder=PlainConfig(size=64))
    assert config == ConcatenatedConfig.model_validate({"decoder": {"size": 64}})


def test_a_run_to_begin_with_has_one_name_in_a_file_and_one_in_python(file: Path) -> None:
    config = read_config(file, ["model.encoder.from=runs/lm"]).model
    assert config == EncoderDecoderConfig(encoder=RecurrentEncoderConfig(from_run="runs/lm"))
    with pytest.raises(ConfigError) as caught:
        read_config(file, ["model.encoder.from_run=runs/lm"])
    assert caught.value.problems == ["model.encoder.from_run: 'lstm' has no such key; did you mean 'from'?"]


def test_a_value_with_an_equals_sign(file: Path) -> None:
    assert read_config(file, ["data.train=a=b.tsv"]).data.train == "a=b.tsv"


@pytest.mark.parametrize(
    ("text", "train"),
    [
        ("@reverse/train", "@reverse/train"),
        ("my #1.tsv", "my #1.tsv"),
        ("#1.tsv", "#1.tsv"),
        ("a#1.tsv", "a#1.tsv"),
        ('"my #1.tsv"', "my #1.tsv"),
        ("'@odd name'", "@odd name"),
        ('["@odd #1", b]', ["@odd #1", "b"]),
    ],
)
def test_an_override_needs_no_quotes_for_data_sets_and_hashes(file: Path, text: str, train: str | list[str]) -> None:
    assert read_config(file, [f"data.train={text}"]).data.train == train


def test_text_that_is_no_yaml_is_taken_as_it_stands() -> None:
    assert [parse_value(text) for text in ("3", "[", "@a", "a #1")] == [3, "[", "@a", "a"]


def test_a_file_goes_before_a_recipe_and_a_folder_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reverse").mkdir()
    assert read_config("reverse").data.train == "@reverse/train"
    Path("g2p").write_text("data: {train: mine.tsv}")
    assert read_config("g2p").data.train == "mine.tsv"


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfdata: {train: a.tsv}\r\n")
    assert read_config(path).data.train == "a.tsv"


def test_anchors_and_merges_work(tmp_path: Path) -> None:
    path = tmp_path / "anchors.yaml"
    path.write_text(
        "data: {train: a.tsv, source: &side {tokens: words, min_count: 2}, target: {<<: *side, column: 1}}\n"
    )
    target = read_config(path).data.target
    assert (target.tokens, target.min_count, target.column) == ("words", 2, 1)


def test_the_data_section_survives_faults_elsewhere(file: Path) -> None:
    part = usable_part(file, ["training.epochs=ten"])
    assert part is not None
    assert part.data == read_config(file).data
    assert usable_part(file, ["data.train=3"]) is None


def test_an_unknown_recipe() -> None:
    with pytest.raises(ConfigError, match="did you mean 'reverse'"):
        recipe_text("revers")
