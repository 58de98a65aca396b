"""Combinations that do not go together are named with both values and the way out."""

from __future__ import annotations

import pytest

from antiphon.config.checks import check_config
from antiphon.config.load import put
from antiphon.config.schema import Config

LEARNT = ["model.encoder.kind=transformer", "model.encoder.positions=learnt"]
DIRECT = ["model.decoder.kind=plain", "model.context.kind=last", "model.context.bridge=direct"]
GUIDED = "training.guided_attention={weight: 1.0}"
TIED = ["model.tie=all", "model.decoder.embedding=256", "model.encoder.embedding=256"]
TABLES = ["model.tie=tables", "data.shared_vocabulary=true"]
CONCATENATED = ["model.kind=concatenated", "model.decoder.kind=transformer", "model.decoder.positions=learnt"]
GOOD = [
    [],
    ["model.context.score=dot", "model.decoder.size=512"],
    ["model.context.score=dot", "model.encoder.bidirectional=false"],
    ["model.context.score=bilinear"],
    ["model.context.size=32"],
    ["training.optimizer={kind: sgd, momentum: 0.9}"],
    ["training.schedule=plateau", "training.schedule.factor=0.1"],
    ["training.schedule.warmup=10", "training.schedule.kind=constant"],
    ["training.metric=bleu"],
    ["data.target.column=[1, 2]"],
    ["data.delimiter=pipe"],
    ["data.delimiter=pipe", "data.train=a.jsonl", "data.dev=b.csv.gz"],
    ["data.source.tokens=words"],
    ["data.shared_vocabulary=true"],
    ["model.context.score=cosine", "model.encoder.kind=cnn"],
    ["model.context.alignment=hard", "model.context.alignment.entropy=0.1", "model.context.alignment.baseline=0.5"],
    [GUIDED],
    ["model.ctc=0.5"],
    ["decoding.replace_unknown=true"],
    ["model.encoder.layers=2", "model.encoder.residual=true"],
    ["model.decoder.kind=plain"],
    ["model.decoder.kind=plain", "model.context.kind=mean", "model.context.feed=start"],
    [*DIRECT, "model.decoder.size=512"],
    ["model.decoder.kind=transformer"],
    ["model.encoder.kind=transformer", "model.decoder.kind=transformer", "model.context.kind=multi-head"],
    [*LEARNT, "model.encoder.positions.longest=201"],
    [*LEARNT, "model.encoder.positions.longest=10", "data.source.max_length=9"],
    ["model.tie=output", "model.decoder.embedding=256"],
    [*TIED, "data.shared_vocabulary=true"],
    TABLES,  # 128 and 128; the output layer is 256 wide and free
    [*TABLES, "model.kind=concatenated"],
    ["model.kind=language-model", "model.decoder.kind=transformer", "model.tie=output"],
    ["model.kind=concatenated", "model.decoder.kind=plain", "model.decoder.embedding=256", "model.tie=output"],
]
BAD = [
    (["model.context.score=dot"], ["model.context.score", "256", "512", "bilinear"]),
    (["model.context.score=dot", "model.decoder.kind=luong"], ["model.context.score", "256", "512", "bilinear"]),
    (["model.context.score=bilinear", "model.context.size=32"], ["model.context.size", "32", "bilinear", "null"]),
    (
        ["model.context.score=scaled-dot", "model.encoder.kind=cnn", "model.decoder.size=200"],
        ["model.context.score: scaled-dot", "200", "256 (cnn)", "set model.decoder.size to 256"],
    ),
    (["model.context.score=cosine", "model.encoder.bidirectional=true"], ["cosine", "256 x 2 directions", "bilinear"]),
    ([GUIDED, "model.context.alignment=hard"], ["training.guided_attention", "soft", "model.context"]),
    ([GUIDED, "model.decoder.kind=plain"], ["training.guided_attention", "soft", "bahdanau or luong"]),
    ([GUIDED, "model.kind=language-model"], ["training.guided_attention", "language-model has none"]),
    (["decoding.replace_unknown=true", "model.decoder.kind=plain"], ["decoding.replace_unknown", "one text", "false"]),
    (["model.context.kind=mean"], ["model.context.kind: mean is not for the decoder bahdanau", "plain"]),
    (
        ["model.context.kind=last", "model.decoder.kind=transformer"],
        ["model.context.kind: last is not for the decoder transformer", "multi-head", "plain"],
    ),
    (
        ["model.context.kind=multi-head", "model.decoder.kind=luong"],
        ["model.context.kind: multi-head is not for the decoder luong", "set it to attention", "transformer"],
    ),
    (
        DIRECT,
        ["model.context.bridge: direct", "512 (256 x 2 directions)", "256", "dense"],
    ),
    (
        [*DIRECT, "model.context.feed=every-step"],
        ["model.context.bridge: direct", "every-step", "start or both"],
    ),
    (["model.encoder.kind=transformer", "model.encoder.heads=7"], ["model.encoder.heads: 7", "256", "8", "259"]),
    (["model.decoder.kind=transformer", "model.decoder.heads=3"], ["model.decoder.heads: 3", "256", "2", "258"]),
    (["model.encoder.kind=cnn", "model.encoder.size=255"], ["model.encoder.size", "255", "256", "learnt"]),
    (["model.encoder.residual=true"], ["model.encoder.residual", "one layer", "model.encoder.layers to 2"]),
    (
        [*LEARNT, "model.encoder.positions.longest=200"],
        ["model.encoder.positions.longest: a table of 200", "201", "data.source.max_length"],
    ),
    (
        [*CONCATENATED, "model.decoder.positions.longest=401"],
        [
            "model.decoder.positions.longest: a table of 401",
            "set it to 402, or lower data.source.max_length, or data.target.max_length and decoding.max_length",
        ],
    ),
    (
        ["model.decoder.kind=transformer", "model.decoder.positions=learnt", "model.decoder.positions.longest=200"],
        [
            "model.decoder.positions.longest: a table of 200",
            "201",
            "lower data.target.max_length and decoding.max_length",
        ],
    ),
    (["model.tie=output"], ["model.tie", "256 wide", "128", "model.decoder.embedding to 256"]),
    (["model.tie=all", "data.shared_vocabulary=true"], ["256 wide", "128", "or tie to tables"]),
    (TIED, ["model.tie: all", "data.shared_vocabulary to true", "or tie to output"]),
    (TABLES[:1], ["model.tie: tables", "data.shared_vocabulary to true", "or tie to none"]),
    (
        [*TABLES, "model.encoder.embedding=64"],
        ["model.tie: the source's embedding is 64 wide and the target's 128", "embedding to 128, or tie to none"],
    ),
    (
        [*TIED[:2], "data.shared_vocabulary=true"],
        ["model.tie: the source's embedding is 128 wide and the target's 256", "model.encoder.embedding to 256"],
    ),
    (
        [*TIED[:2], "data.shared_vocabulary=true", "model.encoder.kind=transformer", "model.encoder.size=128"],
        ["model.tie: the source's embedding is 128 wide and the target's 256", "model.encoder.size to 256"],
    ),
    (["data.shared_vocabulary=true", "data.source.tokens=words"], ["data.source.tokens words", "characters"]),
    (["data.shared_vocabulary=true", "data.source.vocabulary=5"], ["data.source.vocabulary 5", "8000"]),
    (["data.source.column=[0, 1]"], ["data.source.column", "list of 2"]),
    (["data.target.column=-1"], ["column -1", "from 0"]),
    (["data.turns=<turn>", "data.source={kind: image}"], ['data.turns: "<turn>" is between the turns', "to null"]),
    (["data.turns=<turn>", "data.labels=true"], ["data.turns: ", "one text without labels; set it to null"]),
    (["data.delimiter=tab", "data.train=a.json.gz"], ['data.delimiter: "\\t" divides the lines', "set it to null"]),
    (["data.delimiter=pipe", "data.train=[a.en, a.de]"], ["data.delimiter: ", "but the files here are none"]),
    (["data.delimiter=pipe", "data.train=a.xlsx", "data.dev=a.parquet"], ["data.delimiter: ", "set it to null"]),
]


def made(overrides: list[str]) -> Config:
    data = {"data": {"train": "pairs.tsv"}}
    for override in overrides:
        assert put(data, override) == []
    return Config.model_validate(data)


@pytest.mark.parametrize("overrides", GOOD, ids=" ".join)
def test_what_goes_together(overrides: list[str]) -> None:
    assert check_config(made(overrides)) == []


@pytest.mark.parametrize(("overrides", "words"), BAD)
def test_what_does_not(overrides: list[str], words: list[str]) -> None:
    [problem] = check_config(made(overrides))
    for word in words:
        assert word in problem


def test_all_combinations_are_reported_together() -> None:
    overrides = ["model.context.score=dot", "decoding.joint=0.5", "decoding.beam=1", "model.encoder.residual=true"]
    assert len(check_config(made(overrides))) == 3


TEXT = ["model={kind: language-model}", "data={train: text.txt}"]


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["data.window=64"],
        ["data.source=null"],
        ["model.decoder={kind: transformer}", "data.window=64"],
        ["model.decoder={kind: transformer, positions: {kind: learnt, longest: 65}}", "data.window=64"],
        ["model.decoder={kind: transformer, positions: {kind: learnt, longest: 10}}", "data.target.max_length=9"],
        ["training.metric=bits_per_character", "evaluation={metrics: [word_perplexity, loss]}"],
    ],
)
def test_good_language_models(overrides: list[str]) -> None:
    assert check_config(made([*TEXT, *overrides])) == []


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ([*TEXT, "data.source={column: 0}"], "data.source: a language model has no source; "),
        ([*TEXT, "data.shared_vocabulary=true"], "data.shared_vocabulary: a language model has one side only; "),
        ([*TEXT, "data.train=[a.txt, b.txt]"], "data.train: a language model reads one file of texts, got a.txt and "),
        ([*TEXT, "data.dev=[a.txt, b.txt]"], "data.dev: a language model reads one file of texts, got a.txt and b.txt"),
        ([*TEXT, "data.target.column=[0, 1]"], "data.target.column: one column is the text, got a list of 2; "),
        ([*TEXT, "data.window=9", "data.target.max_length=50"], "data.target.max_length: 50 is the longest line, but "),
        (
            [*TEXT, "data.window=64", "model.decoder={kind: transformer, positions: {kind: learnt, longest: 64}}"],
            "model.decoder.positions.longest: a table of 64 learnt positions, but sequences may be 65 tokens long; "
            "set it to 65, or lower data.window",
        ),
        (
            [*TEXT, "model.decoder={kind: transformer, positions: {kind: learnt, longest: 200}}"],
            "model.decoder.positions.longest: a table of 200 learnt positions, but sequences may be 201 tokens long; "
            "set it to 201, or lower data.target.max_length",
        ),
        (
            [*TEXT, "data.window=5000"],
            "data.window: a window of 5000 tokens does not fit into training.batch_tokens 4096",
        ),
        ([*TEXT, "training.metric=bleu"], "training.metric: bleu compares answers with references, and a language "),
        (
            [*TEXT, "evaluation={metrics: [loss, cer]}"],
            "evaluation.metrics: cer compares answers with references, and ",
        ),
        (["data.source=null"], "data.source: null is for language models, but model.kind is encoder-decoder; give it "),
        (["data.window=64"], "data.window: 64 is for language models, but model.kind is encoder-decoder; set it to "),
    ],
)
def test_what_is_for_language_models_only_and_for_others_only(overrides: list[str], sentence: str) -> None:
    [problem] = check_config(made(overrides))
    assert problem.startswith(sentence)
    assert "decoding.max_length" not in problem  # a language model writes in pieces
    assert "; " in problem
