"""A bad configuration: everything wrong with it at once, each with path, fact and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config.load import read_config
from antiphon.errors import ConfigError

MANY = """\
data: {train: 5, target: {column: [0, 1.5]}, sorce: {}}
model:
  encoder: {kind: ltsm, hiden_size: 3, layers: "2"}
  decoder: {kind: loung, siz: 1, input_feeding: 3, foo: 1}
training:
  epochs: ten
  lr: 1e-3
  learning_rate: -1e-3
  beam: 4
  clip: .inf
  optimizer: {kind: sgd, momentum: 1.0}
evaluation: {metrics: [blue, cer]}
decoding:
1: 2
"""
EXPECTED = [
    "model.decoder.kind: should be one of bahdanau, luong, plain, transformer, got 'loung'; did you mean 'luong'?",
    "data.train: should be a valid string or a valid list, got 5",
    "data.target.column[1]: should be a valid integer or a valid string, got 1.5",
    "data.sorce: 'data' has no such key; did you mean 'source'?",
    "model.encoder.kind: should be one of lstm, gru, rnn, rnn-relu, cnn, transformer, none, got 'ltsm'; "
    "did you mean 'lstm'?",
    "model.encoder.layers: should be a valid integer, got '2'; write 2 without quotes",
    "model.encoder.hiden_size: 'lstm' has no such key; did you mean 'size'?",
    "model.decoder.input_feeding: should be a valid boolean, got 3",
    "model.decoder.siz: 'luong' has no such key; did you mean 'size'?",
    "model.decoder.foo: 'luong' has no such key; its keys are kind, cell, embedding, size, layers, dropout, "
    "input_feeding, from, freeze",
    "training.epochs: should be a valid integer, got 'ten'",
    "training.learning_rate: should be greater than 0, got -0.001",
    "training.optimizer.momentum: should be less than 1, got 1.0",
    "training.clip: should be a valid number, got '.inf'",
    "training.lr: 'training' has no such key; did you mean 'learning_rate'?",
    "training.beam: 'training' has no such key; did you mean 'decoding.beam'?",
    "decoding: should be a section of keys, got null (nothing)",
    "evaluation.metrics[0]: should be one of loss, perplexity, word_perplexity, bits_per_character, exact_match, "
    "token_accuracy, span_f1, token_error_rate, cer, wer, per, bleu, bleu_1, bleu_2, bleu_3, chrf, ter, rouge_1, "
    "rouge_2, rouge_l, "
    "got 'blue'; did you mean 'bleu'?",
    "1: a configuration has no such key; its keys are data, model, training, decoding, evaluation",
]


def problems(tmp_path: Path, text: str | bytes, overrides: list[str] | None = None) -> list[str]:
    path = tmp_path / "bad.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        read_config(path, overrides or [])
    assert caught.value.exit_code == 2
    return [problem.replace(str(path), "bad.yaml") for problem in caught.value.problems]


def test_everything_at_once(tmp_path: Path) -> None:
    assert sorted(problems(tmp_path, MANY)) == sorted(EXPECTED)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "bad.yaml: holds no configuration; `antiphon init DATA` writes one"),
        ("# only words\n", "bad.yaml: holds no configuration; `antiphon init DATA` writes one"),
        ("- a\n", "the configuration: expected the sections data, model, training, decoding, evaluation, got [a]"),
        ("training: {}\n", "data: missing; add it: the examples"),
        (
            "data: {}\n",
            "data.train: missing; add it: TSV, CSV, JSON, JSONL (also .gz), parquet, xlsx; [source file, target file]; "
            "@NAME/SPLIT; language models: plain text",
        ),
        ("data: {train: a}\ntraining: 3\n", "training: should be a section of keys, got 3"),
        ("data: {train: a}\nmodel: {decoder: 3}\n", "model.decoder: should be a section of keys, got 3"),
        (
            "data: {train: a}\nmodel: {decoder: {kind: 3}}\n",
            "model.decoder.kind: should be one of bahdanau, luong, plain, transformer, got 3",
        ),
        ("data: {train: [a]}\n", "data.train: should be a valid string or a list of at least 2, got [a]"),
        ("data: {train: a, header: yes}\n", "data.header: should be a valid boolean, got 'yes'"),
        (
            "data: {train: a}\ntraining: {seed: true}\n",
            "training.seed: should be a valid integer, got true",
        ),
        ("data: {train: a}\ntraining: {seed: 1.5}\n", "training.seed: should be a valid integer, got 1.5"),
        (
            "data: {train: a}\nmodel: {decoder: {kind: bahdanau, input_feeding: true}}\n",
            "model.decoder.input_feeding: 'bahdanau' has no such key; leave it out, or set the kind to luong",
        ),
        (
            "data: {train: a}\nmodel: {encoder: {heads: 4}}\n",
            "model.encoder.heads: 'lstm' has no such key; leave it out, or set the kind to transformer",
        ),
        (
            "data: {train: a}\nmodel: {context: {feed: start}}\n",
            "model.context.feed: 'attention' has no such key; leave it out, or set the kind to last or mean or max",
        ),
        (
            "data: {train: a}\nmodel: {kind: language-model, encoder: {}}\n",
            "model.encoder: 'language-model' has no such key; leave it out, or set the kind to encoder-decoder "
            "or tagger",
        ),
        (  # no decoder of a language model has it
            "data: {train: a}\nmodel: {kind: language-model, decoder: {input_feeding: true}}\n",
            "model.decoder.input_feeding: 'plain' has no such key; its keys are kind, cell, embedding, size, layers, "
            "dropout, from, freeze",
        ),
        (  # the context is that of the decoder that was meant
            "data: {train: a}\nmodel: {decoder: {kind: plian}, context: {feed: start}}\n",
            "model.decoder.kind: should be one of bahdanau, luong, plain, transformer, got 'plian'; did you mean "
            "'plain'?",
        ),
        ("data: {train: a}\nmodel: {context: 3}\n", "model.context: should be a section of keys, got 3"),
        (
            "data: {train: a}\nmodel: {encoder: {kind: cnn, kernel: 4}}\n",
            "model.encoder.kernel: 4 is even, so there is no middle; set it to 3 or 5",
        ),
        (
            "data: {train: a}\nmodel: {encoder: {ngrams: [3, 4]}}\n",
            "model.encoder.ngrams[1]: 4 is even, so there is no middle; set it to 3 or 5",
        ),
        (
            "data: {train: a}\nmodel: {encoder: {ngrams: [1]}}\n",
            "model.encoder.ngrams[0]: should be greater than or equal to 3, got 1",
        ),
        (
            "data: {train: a}\nmodel: {encoder: {ngrams: [3, 3]}}\n",
            "model.encoder.ngrams: [3, 3] has a length twice; name each once",
        ),
        (
            "data: {train: a}\nmodel: {encoder: {kind: cnn, positions: {longest: 300}}}\n",
            "model.encoder.positions.longest: 'sinusoidal' has no such key; leave it out, or set the kind to learnt",
        ),
        (
            "data: {train: a}\ntraining: {optimizer: {momentum: 0.9}}\n",
            "training.optimizer.momentum: 'adamw' has no such key; leave it out, or set the kind to sgd",
        ),
        (
            "data: {train: a}\ntraining: {schedule: {kind: cosine, factor: 0.1}}\n",
            "training.schedule.factor: 'cosine' has no such key; leave it out, or set the kind to plateau",
        ),
        (
            "data: {train: a}\ntraining: {guided_attention: {width: 0.1}}\n",
            "training.guided_attention.weight: missing; add it: weight of the guided attention loss",
        ),
        (
            "data: {train: a}\ntraining: {schedule: cosin}\n",
            "training.schedule: should be one of inverse-sqrt, cosine, constant, plateau, got 'cosin'; did you mean "
            "'cosine'?",
        ),
        (
            "data: {train: a}\ntraining: {seed: 9223372036854775808}\n",
            f"training.seed: should be less than {2**63}, got {2**63}",
        ),
        (
            "data: {train: a}\nmodel: {kind: x}\n",
            "model.kind: should be one of encoder-decoder, language-model, concatenated, tagger, got 'x'",
        ),
        (b"data: {train: \xe9}\n", "bad.yaml, line 1: not UTF-8 (byte 0xE9); save the file as UTF-8"),
        ("data: {train: \x01}\n", "bad.yaml, line 1: the character U+0001 is not allowed in YAML; remove it"),
        ("[" * 5000, "bad.yaml: nested too deeply; a configuration has at most four levels"),
        (
            "data: {train: a}\ndata: {train: b}\n",
            "bad.yaml, line 2: 'data' occurs already in line 1; keep one",
        ),
        ("data: {train: a, dev: b, dev: c}\n", "bad.yaml, line 1: 'dev' occurs already in line 1; keep one"),
    ],
)
def test_one_fault_one_sentence(tmp_path: Path, text: str | bytes, expected: str) -> None:
    assert problems(tmp_path, text) == [expected]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("data:\n\ttrain: a\n", "bad.yaml, line 2, column 1: not YAML"),
        ("data: {train: a\n", "bad.yaml, line 2, column 1: not YAML"),
        ("data: a: b\n", "bad.yaml, line 1, column 8: not YAML"),
        ("data: *nowhere\n", "bad.yaml, line 1, column 7: not YAML"),
        ("data: !!python/object:os.system {}\n", "bad.yaml, line 1, column 7: not YAML"),
        ("a: 1\n---\nb: 2\n", "bad.yaml, line 2, column 1: not YAML"),
        ("? [a]\n: 1\n", "bad.yaml, line 1, column 3: not YAML"),
    ],
)
def test_broken_yaml_says_where(tmp_path: Path, text: str, place: str) -> None:
    [problem] = problems(tmp_path, text)
    assert problem.startswith(place)


def test_a_double_key_does_not_hide_other_faults(tmp_path: Path) -> None:
    text = "data: {train: a}\ntraining: {seed: 1, seed: 2, epoch: 3}\n"
    assert problems(tmp_path, text) == [
        "bad.yaml, line 2: 'seed' occurs already in line 2; keep one",
        "training.epoch: 'training' has no such key; did you mean 'epochs'?",
    ]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "training.epochs",
            "'training.epochs': not of the form section.key=value; write for example training.epochs=5",
        ),
        ("=3", "'=3': not of the form section.key=value; write for example training.epochs=5"),
        ("training..epochs=3", "'training..epochs=3': not of the form section.key=value"),
        ("training.epoch=3", "training.epoch: 'training' has no such key; did you mean 'epochs'?"),
        ("trainin.epochs=3", "trainin: a configuration has no such key; did you mean 'training'?"),
        ("epochs=3", "epochs: a configuration has no such key; did you mean 'training.epochs'?"),
        ("data.train.x=3", "data.train.x: there are no keys inside 'data.train'"),
        ("training.epochs=[", "training.epochs: '[' is not YAML"),
        ("data.train=[@reverse/train, b]", "data.train: '[@reverse/train, b]' is not YAML; put quotes round"),
        ("training.epochs=5 # five", "training.epochs: should be a valid integer, got '5 # five'"),
        ("training.epochs=ten", "training.epochs: should be a valid integer, got 'ten'"),
        ("training.metric=blue", "training.metric: should be one of"),
    ],
)
def test_bad_overrides(tmp_path: Path, override: str, expected: str) -> None:
    [problem] = problems(tmp_path, "data: {train: a}\n", [override])
    assert problem.startswith(expected)


def test_bad_overrides_come_together(tmp_path: Path) -> None:
    assert len(problems(tmp_path, "data: {train: a}\n", ["x", "training.epoch=3", "decoding.beam=0"])) == 3


def test_combinations_are_looked_at_when_each_value_is_right(tmp_path: Path) -> None:
    found = problems(
        tmp_path, "data: {train: a}\n", ["model.context.score=dot", "decoding.joint=0.5", "decoding.beam=1"]
    )
    assert [problem.split(":")[0] for problem in found] == ["model.context.score", "decoding.joint"]


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text("data: {train: a}")
    Path("run").mkdir()
    Path("run/config.yaml").write_text("data: {train: a}")
    Path("empty").mkdir()
    for name, words in {
        "smal.yaml": "smal.yaml: no such file or recipe; did you mean 'small.yaml'?",
        "revers": "revers: no such file or recipe; did you mean 'reverse'?",
        "nothing/like/it": "nothing/like/it: no such file or recipe; `antiphon init DATA` writes one",
        "run": "run: a folder, not a configuration; did you mean run/config.yaml?",
        "empty": "empty: a folder, not a configuration; give a YAML file or a recipe's name",
        "small.yaml/x": "small.yaml/x: cannot be read (Not a directory)",
        "a\0b": "a\0b: cannot be read",
    }.items():
        with pytest.raises(ConfigError) as caught:
            read_config(name)
        assert str(caught.value).startswith(words)
