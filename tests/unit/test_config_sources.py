"""Several sources, sources that are no text, fronts: what goes together, and a sentence for all that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.config.checks import check_config
from antiphon.config.load import read_config
from antiphon.config.networks import NoEncoderConfig, RecurrentEncoderConfig
from antiphon.config.schema import Config, TextConfig
from antiphon.config.sources import FeaturesConfig
from antiphon.config.yaml_text import config_diff, explained_yaml
from antiphon.errors import ConfigError

TEXT: dict[str, Any] = {"kind": "text"}
IMAGE: dict[str, Any] = {"kind": "image"}
FEATURES: dict[str, Any] = {"kind": "features"}
GUIDED = {"guided_attention": {"weight": 1.0}}
LEARNT: dict[str, Any] = {
    "kind": "transformer",
    "size": 8,
    "heads": 2,
    "positions": {"kind": "learnt", "longest": 9999},
}


def config(source: Any, *, data: Any = None, **model: Any) -> Config:  # noqa: ANN401
    columns = [{**one, "column": number} for number, one in enumerate(source)] if isinstance(source, list) else source
    training = model.pop("training", {})
    values = {"train": "t.tsv", "source": columns, "target": {"column": 9}, **(data or {})}
    return Config.model_validate({"data": values, "model": model, "training": training})


def short(rows: int) -> dict[str, Any]:
    return {**LEARNT, "positions": {"kind": "learnt", "longest": rows}}


GOOD = {
    "image": config(IMAGE),
    "image-patches": config(IMAGE, front={"kind": "patches"}, encoder={"kind": "none"}),
    "two": config([TEXT, IMAGE], front=[None, {"kind": "cells"}]),
    "two-encoders": config([TEXT, FEATURES], encoder=[{"kind": "gru", "size": 8}, {"kind": "none", "size": 16}]),
    "shared": config([TEXT, TEXT], data={"shared_vocabulary": True}, tie="tables"),
    "matches": config([TEXT, TEXT, IMAGE], data={"shared_vocabulary": True}, matches=True),
    "skipped": config(FEATURES, data={"skip_unreadable": True}),
    "in-order": config({**IMAGE, "width": None}, front={"kind": "cells", "columns": True}, ctc=0.5, training=GUIDED),
    "features-in-order": config(FEATURES, ctc=0.5, training=GUIDED),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_goes_together_is_written_and_read_back_equal(name: str, tmp_path: Path) -> None:
    assert check_config(GOOD[name]) == []
    path = tmp_path / "config.yaml"
    path.write_text(explained_yaml(GOOD[name]))
    assert read_config(path) == GOOD[name]
    assert config_diff(read_config(path), GOOD[name]) == []


BAD: list[tuple[str, Config]] = [
    ("model.matches: it compares several texts, but data.source has 1; set it to false",
     config([TEXT, IMAGE], data={"shared_vocabulary": True}, matches=True)),
    ("model.matches: the texts of data.source have a vocabulary each; set data.shared_vocabulary to true, or matches "
     "to false", config([TEXT, TEXT], matches=True)),
    ("model.ctc: 0.5 is for one source that is read in order, but there are 2", config([TEXT, TEXT], ctc=0.5)),
    ("model.ctc: 0.5 is for one source that is read in order, but the cells of a picture are not; set it to 0, or "
     "model.front to {kind: cells, columns: true}", config(IMAGE, ctc=0.5)),
    ("model.ctc: 0.5 is for one source that is read in order, but the cells of a picture are not",
     config(IMAGE, front={"kind": "patches"}, ctc=0.5)),
    ("model.ctc: 0.5 is for one source that is read in order, but data.source.ordered is false; set it to 0, or "
     "ordered to true", config({**FEATURES, "ordered": False}, encoder={"kind": "none"}, ctc=0.5)),
    ("model.ctc: 0.5 trains the encoder, but model.encoder.freeze is true",
     config(FEATURES, encoder={"kind": "gru", "freeze": True}, ctc=0.5)),
    ("training.guided_attention: it is for one source that is read in order, but there are 2",
     config([TEXT, TEXT], training=GUIDED)),
    ("training.guided_attention: it is for one source that is read in order, but the cells of a picture are not",
     config(IMAGE, training=GUIDED)),
    ("model.front: a list of 2, but data.source is one source", config(IMAGE, front=[None, None])),
    ("model.encoder: a list of 2, but data.source is 3 sources", config([TEXT] * 3, encoder=[{}, {}])),
    ("model.front: one section, but there are 2 sources", config([TEXT, IMAGE], front={"kind": "cells"})),
    ("model.front.kind: cells is not for data.source, which is of kind features",
     config(FEATURES, front={"kind": "cells"})),
    ("model.front[0].kind: linear is not for data.source[0], which is of kind text",
     config([TEXT, FEATURES], front=[{"kind": "linear"}, None])),
    ("model.kind: concatenated reads one text, but data.source is of kind image", config(IMAGE, kind="concatenated")),
    ("model.kind: concatenated reads one text, but data.source is 2 sources",
     config([TEXT, TEXT], kind="concatenated")),
    ("data.source: a language model has no source", config([TEXT, TEXT], kind="language-model")),
    ("data.shared_vocabulary: data.source is of kind image", config(IMAGE, data={"shared_vocabulary": True})),
    ("model.tie: all is for two texts, but data.source is of kind image", config(IMAGE, tie="all")),
    ("training.noise: it is for a source that is one text", config(FEATURES, training={"noise": {"mask": 0.1}})),
    ("training.noise: it is for a source that is one text", config([TEXT, TEXT], training={"noise": {"delete": 0.1}})),
    ("data.skip_unreadable: true is for sources that are files", config(TEXT, data={"skip_unreadable": True})),
    ("model.encoder: states of 512 and 256 cannot be concatenated",
     config([TEXT, TEXT], encoder=[{}, {"kind": "none"}])),
    ("model.encoder.ngrams: they are of tokens, but it reads no text", config(FEATURES, encoder={"ngrams": [3]})),
    ("model.encoder.from: only an encoder of one source can have it", config([TEXT, IMAGE], encoder={"from": "run"})),
    ("model.encoder[1].freeze: only an encoder of one source can have it",
     config([TEXT, TEXT], encoder=[{}, {"freeze": True}])),
    ("model.encoder.positions: learnt positions are of one row, but cells have rows", config(IMAGE, encoder=LEARNT)),
    ("data.train: two files have one source and one target", config([TEXT, TEXT], data={"train": ["a", "b"]})),
    ("model.encoder.positions.longest: a table of 9 learnt positions, but sequences may be 402 tokens long",
     config([TEXT, TEXT], encoder=short(9))),
    ("model.encoder[1].positions.longest: a table of 9 learnt positions, but sequences may be 201 tokens long",
     config([TEXT, TEXT], encoder=[short(201), short(9)])),
    ("data.source.max_length: 9 is less than the width 10, so every picture would be left out",
     config({**IMAGE, "width": 10, "max_length": 9})),
    ("model.front.wide: 3, but there are 2 stages; set it to at most 2",
     config(IMAGE, front={"kind": "cells", "channels": [4, 8], "wide": 3})),
    ("data.shared_vocabulary: one vocabulary cannot have data.source[1].tokens words",
     config([TEXT, {**TEXT, "tokens": "words"}], data={"shared_vocabulary": True})),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "bad"), BAD, ids=[sentence[:50] for sentence, _ in BAD])
def test_what_does_not_go_together_has_a_sentence(sentence: str, bad: Config) -> None:
    found = check_config(bad)
    assert any(one.startswith(sentence) for one in found), found


def test_one_column_twice_is_a_slip() -> None:
    values = {"train": "t.tsv", "source": [TEXT, TEXT], "target": {"column": 1}}
    [found] = check_config(Config.model_validate({"data": values}))
    assert found == "data.source[1].column: 0 is that of data.source[0], too; name another"


def test_kinds_are_the_usual_ones_where_none_is_named() -> None:
    made = config([{"tokens": "words"}, FEATURES], encoder=[{"size": 8}, {"kind": "none", "size": 16}])
    assert [type(source) for source in made.data.sources] == [TextConfig, FeaturesConfig]
    assert isinstance(made.model.encoder, list)
    assert [type(part) for part in made.model.encoder] == [RecurrentEncoderConfig, NoEncoderConfig]


def problems(tmp_path: Path, text: str, *overrides: str) -> list[str]:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_config(path, overrides)
    return caught.value.problems


def test_slips_inside_lists_and_choices_are_named(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "data:\n  train: t.tsv\n  source:\n    - {kind: imge, hight: 3}\n    - {column: 1, tokns: words}\n"
        "model: {encoder: [{kind: gru, siz: 3}, {kind: nne}], front: {kind: cels}}\n",
    )
    assert found == [
        "data.source[0].kind: should be one of text, image, audio, features, frames, got 'imge'; did you mean 'image'?",
        "model.front.kind: should be one of cells, patches, subsampled, linear, frame-cells, got 'cels'; "
        "did you mean 'cells'?",
        "model.encoder[1].kind: should be one of lstm, gru, rnn, rnn-relu, cnn, transformer, none, got 'nne'; "
        "did you mean 'none'?",
        "data.source[0].hight: 'image' has no such key; did you mean 'height'?",
        "data.source[1].tokns: 'text' has no such key; did you mean 'tokens'?",
        "model.encoder[0].siz: 'gru' has no such key; did you mean 'size'?",
    ]


def test_a_number_that_is_too_large_is_told_the_limit(tmp_path: Path) -> None:
    [found] = problems(tmp_path, "data: {train: t.tsv, source: {kind: audio, mels: 1000}}\n")
    assert found == "data.source.mels: should be less than or equal to 256, got 1000"


def test_a_key_of_another_kind_of_source_is_named(tmp_path: Path) -> None:
    [found] = problems(tmp_path, "data: {train: t.tsv, source: {kind: text, height: 3}}\n")
    assert found.startswith(
        "data.source.height: 'text' has no such key; leave it out, or set the kind to image or frames"
    )


def test_an_override_reaches_into_a_list(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(explained_yaml(GOOD["two"]))
    changed = read_config(path, ["data.source[1].height=32", "model.front[1].blocks=0"])
    assert getattr(changed.data.sources[1], "height", 0) == 32
    [found] = problems(tmp_path, path.read_text(), "data.source[7].height=32")
    assert found.startswith("data.source[7].height: there are no keys inside 'data.source[7]'")
