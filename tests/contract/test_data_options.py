"""Every key of data and decoding does what its description says; and no section is forgotten."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_learning_options
import test_model_options
import test_registered_parts
import test_source_options
import test_training_options
import torch
from pydantic import BaseModel
from tiny_models import choices, fill
from tiny_runs import WORDS, tiny_config
from untrained_models import LogitBias, untrained_model

from antiphon.config import schema
from antiphon.config.networks import RegisteredEncoderConfig
from antiphon.config.schema import (
    Config,
    DataConfig,
    DecodingConfig,
    InfillConfig,
    NoiseConfig,
    TextConfig,
    TrainingConfig,
)
from antiphon.config.sections import Section
from antiphon.data.prepare import Prepared, prepare
from antiphon.data.tokenizers import EOS, CharacterTokenizer
from antiphon.errors import DataError
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, save_model
from antiphon.models.build import build_model
from antiphon.ngrams.train_joint import align, count_ngrams
from antiphon.sequence import Sequence
from antiphon.training.run import build_batches

Prepare = Callable[..., Prepared]
ONE_ROW = TrainingConfig(batch_tokens=1)
PAIRS = [("a b", "x y"), ("b c", "y z"), ("c c c a", "z z"), ("d", "x x x"), ("a", "w"), ("a d", "v")]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """PAIRS, prepared with other values in `data`."""
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("train.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    Path("dev.tsv").write_text("a d\tv x\nd a\tx v\n")

    def with_values(**values: Any) -> Prepared:  # noqa: ANN401
        return prepare(DataConfig.model_validate({"train": "train.tsv", "dev": "dev.tsv", **values}), lambda _: None)

    return with_values


def texts(prepared: Prepared) -> list[tuple[str, str]]:
    sides = [(prepared.source_tokenizer, prepared.train.source), (prepared.target_tokenizer, prepared.train.target)]
    source, target = ([side.decode(rows[row].tolist()) for row in range(len(prepared.train))] for side, rows in sides)
    return list(zip(source, target, strict=True))


def train(read: Prepare) -> None:
    """Another file, a compressed one, two parallel ones."""
    assert texts(read()) == PAIRS
    Path("other.jsonl.gz").write_bytes(gzip.compress(b'{"in": "q", "out": "r"}\n'))
    named = {"source": {"column": "in"}, "target": {"column": "out"}}
    assert texts(read(train="other.jsonl.gz", dev="other.jsonl.gz", **named)) == [("q", "r")]
    Path("left.txt").write_text("a\nb\n")
    Path("right.txt").write_text("c\nd\n")
    assert texts(read(train=["left.txt", "right.txt"])) == [("a", "c"), ("b", "d")]


def dev(read: Prepare) -> None:
    assert [example.source for example in read().dev] == ["a d", "d a"]
    held = read(dev=None)
    assert {example.source for example in held.dev} < {source for source, _ in PAIRS}
    assert len(texts(held)) + len(held.dev) == len(PAIRS)


def hold_out(read: Prepare) -> None:
    assert len(read(dev=None, hold_out=0.2).dev) == 1
    assert len(read(dev=None, hold_out=0.49).dev) == 3


def delimiter(read: Prepare) -> None:
    Path("dots.txt").write_text("a.b\nc.d\n")
    dots = {"train": "dots.txt", "dev": "dots.txt"}
    assert texts(read(**dots, delimiter=".")) == [("a", "b"), ("c", "d")]
    with pytest.raises(DataError, match=r"no column 1; .*or put tabs between the columns"):
        read(**dots)


def header(read: Prepare) -> None:
    assert texts(read(header=True)) == PAIRS[1:]
    assert texts(read(header=False)) == texts(read(header=None)) == PAIRS


def source(read: Prepare) -> None:
    """The two sides change places."""
    turned = [(target, source) for source, target in PAIRS]
    assert texts(read(source={"column": 1}, target={"column": 0})) == turned


def target(read: Prepare) -> None:
    assert texts(read(target={"column": 0})) == [(source, source) for source, _ in PAIRS]


def shared_vocabulary(read: Prepare) -> None:
    apart, shared = read(), read(shared_vocabulary=True)
    assert shared.source_tokenizer.fingerprint == shared.target_tokenizer.fingerprint
    assert shared.target_tokenizer.encode("a") != apart.target_tokenizer.encode("a")
    assert shared.source_tokenizer.size > apart.source_tokenizer.size


def column(read: Prepare) -> None:
    Path("three.tsv").write_text("in\tout\talso\nb\ty\tz\n")
    three = {"train": "three.tsv", "dev": "three.tsv"}
    assert texts(read(**three, header=True, target={"column": 2})) == [("b", "z")]
    assert texts(read(**three, source={"column": "out"}, target={"column": "in"})) == [("y", "b")]
    assert texts(read(**three, header=True, target={"column": [1, 2]})) == [("b", "y"), ("b", "z")]


def tokens(read: Prepare) -> None:
    cut = {
        kind: read(source={"tokens": kind, "vocabulary": 300}).source_tokenizer
        for kind in choices(TextConfig, "tokens")
    }
    assert {kind: one.kind for kind, one in cut.items()} == {kind: kind for kind in cut}
    assert len(cut["characters"].encode("a b")) == 3
    assert len(cut["words"].encode("a b")) == 2
    assert len(cut["letters"].encode("é")) == 2


def vocabulary(read: Prepare) -> None:
    assert read(source={"vocabulary": 2}).source_tokenizer.size == 2 + 4


def min_count(read: Prepare) -> None:
    assert read().target_tokenizer.unknown("wx") == []
    assert read(target={"column": 1, "min_count": 2}).target_tokenizer.unknown("wx") == ["w"]


def lowercase(read: Prepare) -> None:
    Path("cases.tsv").write_text("A b\tX\na B\tx\n")
    cases = {"train": "cases.tsv", "dev": "cases.tsv"}
    assert texts(read(**cases)) == [("A b", "X"), ("a B", "x")]
    assert texts(read(**cases, source={"lowercase": True})) == [("a b", "X"), ("a b", "x")]
    assert texts(read(**cases, target={"column": 1, "lowercase": True})) == [("A b", "x"), ("a B", "x")]


def normalization(read: Prepare) -> None:
    Path("forms.tsv").write_text("e\u0301ﬁ\té\né\te\u0301\n")
    forms = {"train": "forms.tsv", "dev": "forms.tsv"}
    for form, expected in ((None, "e\u0301ﬁ"), ("nfc", "éﬁ"), ("nfkc", "éfi")):
        assert texts(read(**forms, source={"normalization": form}))[0] == (expected, "é")


def max_length(read: Prepare) -> None:
    short = read(source={"max_length": 3})
    assert texts(short) == [pair for pair in PAIRS if len(pair[0]) <= 3]
    assert short.facts["dropped"]["reasons"] == {"source longer than 3 tokens": 1}
    assert read(target={"column": 1, "max_length": 3}).facts["dropped"]["reasons"] == {"target longer than 3 tokens": 1}


def window(read: Prepare) -> None:
    """The lines are one stream of tokens, </s> between them, in windows; without it each line is an example."""
    Path("text.txt").write_text("abc\nd\nefghij\n")
    text = {"train": "text.txt", "dev": "text.txt", "source": None, "target": {"column": 0}}
    model = {"kind": "language-model"}
    for length, expected in ((None, [2, 4, 7]), (5, [5, 5, 3])):
        config = Config.model_validate({"data": {**text, "window": length}, "model": model})
        batches = build_batches(config.model_copy(update={"training": ONE_ROW}), read(**text, window=length))
        rows = [batches.collate(rows, 0).outputs for rows in batches.plan(0)]
        assert sorted(int(row.lengths.sum()) for row in rows) == sorted(expected)


def tokenizer(read: Prepare) -> None:
    """That of a model folder; test_learning_options.py has whole runs."""
    letters = CharacterTokenizer("zabcd")
    save_model(Path("model"), Config(data=DataConfig(train="train.tsv")), {}, letters, letters)
    assert read(source={"tokenizer": "model"}).source_tokenizer.fingerprint == letters.fingerprint
    assert read().source_tokenizer.fingerprint != letters.fingerprint


def one_kind(_: Prepare) -> None:
    """A word with one meaning so far; a second one needs an effect."""
    assert choices(TextConfig, "kind") == ("text",)


def labels(read: Prepare) -> None:
    """One word for each word; other lines are left out, and named with file and line."""
    words = {"source": {"tokens": "words"}, "target": {"column": 1, "tokens": "words"}}
    Path("even.tsv").write_text("a b\tx y\nc\tx y\nd e\tz\nf\tz\n")
    even = {"train": "even.tsv", "dev": "even.tsv", **words}
    assert len(texts(read(**even))) == 4
    prepared = read(**even, labels=True)
    assert texts(prepared) == [("a b", "x y"), ("f", "z")]
    train = [place for place in prepared.facts["dropped"]["places"] if place["file"] == "even.tsv"]
    reason = "unequal numbers of tokens and labels"
    assert {(place["line"], place["reason"]) for place in train} == {(2, reason), (3, reason)}


def turns(read: Prepare) -> None:
    """The usual separator and the most turns of a training source are kept; the pairs stay as they are."""
    Path("talk.tsv").write_text("a <turn> b <turn> c\td\nc\td\ne <turn> f\tg\n")
    talk = {"train": "talk.tsv", "dev": "talk.tsv"}
    prepared = read(**talk, turns="<turn>")
    assert prepared.facts["turns"] == {"separator": " <turn> ", "most": 3}
    assert texts(prepared) == texts(read(**talk))
    assert "turns" not in read(**talk).facts
    [warning] = [warning for warning in read(**talk, turns="<end>").facts["warnings"] if "(data.turns)" in warning]
    assert warning.startswith("talk.tsv: no source has two turns with '<end>' (data.turns) between them; ")


def affixes(read: Prepare) -> None:
    """Unknown words differ by their affixes; a no-break space separates no words."""
    plain, known = (read(source={"tokens": "words", "affixes": affixes}).source_tokenizer for affixes in (False, True))
    assert plain.encode("walking talking") == plain.encode("2 Paris")
    first, second, third = known.encode("a walking 2")
    assert first == plain.encode("a")[0] < known.size <= second != third
    assert known.symbols([second]) == ["<unk>"]
    rare = read(source={"tokens": "words", "affixes": True, "min_count": 3}).facts["train_unknown"]["source"]
    assert rare == read(source={"tokens": "words", "min_count": 3}).facts["train_unknown"]["source"] > 0
    assert (len(plain.encode("1\xa0000")), len(known.encode("1\xa0000"))) == (2, 1)


def skip_unreadable(read: Prepare) -> None:
    """A file that is missing is an error, or left out and counted."""
    np.save("here.npy", np.ones((2, 3), np.float32))
    Path("files.tsv").write_text("here.npy\ta\nthere.npy\tb\n")
    files = {"train": "files.tsv", "dev": "files.tsv", "source": {"kind": "features", "column": 0}}
    with pytest.raises(DataError, match=r"files\.tsv, line 2: there\.npy: no such file"):
        read(**files)
    prepared = read(**files, skip_unreadable=True)
    assert len(prepared.train) == 1
    assert prepared.facts["dropped"]["reasons"] == {"unreadable: no such file": 2}


DATA_EFFECTS: dict[type[BaseModel], dict[str, Callable[[Prepare], None]]] = {
    DataConfig: {
        effect.__name__: effect
        for effect in (
            train,
            dev,
            hold_out,
            delimiter,
            header,
            source,
            target,
            labels,
            turns,
            shared_vocabulary,
            skip_unreadable,
            window,
        )
    },
    TextConfig: {
        "kind": one_kind,
        **{
            effect.__name__: effect
            for effect in (
                column,
                tokens,
                vocabulary,
                min_count,
                lowercase,
                normalization,
                affixes,
                max_length,
                tokenizer,
            )
        },
    },
}
DATA_KEYS = [(section, key) for section, effects in DATA_EFFECTS.items() for key in effects]


@pytest.mark.parametrize(("section", "key"), DATA_KEYS, ids=lambda value: getattr(value, "__name__", value))
def test_the_key_of_data_does_what_it_says(section: type[BaseModel], key: str, read: Prepare) -> None:
    DATA_EFFECTS[section][key](read)


class Starts:
    """The number of sentences read at once."""

    def __init__(self, generator: Generator) -> None:
        self.sizes: list[int] = []
        start = generator.model.start

        def counted(source: Sequence) -> object:
            self.sizes.append(source.values.size(0))
            return start(source)

        generator.model.start = counted  # type: ignore[assignment, method-assign]


def answering(end: float = 1.5, **decoding: Any) -> Generator:  # noqa: ANN401
    config = tiny_config(Path("pairs.tsv"), decoding=decoding)
    letters = CharacterTokenizer("abcd")
    model = build_model(config.model, source_tokens=letters.size, target_tokens=letters.size).eval()
    fill(model, scale=1.1)
    with torch.no_grad():
        model.decoder.output.bias[EOS] += end
    return Generator(LoadedModel(config, model, letters, letters))


def beam() -> None:
    """A wider beam finds answers that are as probable or more, some of them more."""
    narrow, wide = (answering(beam=size, length_penalty=0.0, end=0.0).generate(WORDS) for size in (1, 5))
    gains = [after.score - before.score for before, after in zip(narrow, wide, strict=True)]
    assert max(gains) > 0.01
    assert len(answering(beam=3).generate("ab", n_best=3).alternatives) == 3


def length_penalty() -> None:
    """score = Σ log p / length^a; a larger a favours longer answers."""
    plain, normal = (answering(length_penalty=a).generate(WORDS) for a in (0.0, 1.0))
    assert all(one.score == pytest.approx(sum(one.log_probs)) for one in plain)
    assert all(one.score == pytest.approx(sum(one.log_probs) / len(one.tokens)) for one in normal)
    assert sum(len(one.tokens) for one in normal) > sum(len(one.tokens) for one in plain)


def longest_answer() -> None:
    for limit in (2, 5):
        answers = answering(beam=2, max_length=limit, end=-100.0).generate(WORDS)
        assert {len(one.tokens) for one in answers} == {limit}


def batch_size() -> None:
    for size, expected in ((4, [4, 4, 2]), (64, [10])):
        generator = answering(batch_size=size)
        starts = Starts(generator)
        generator.generate(WORDS[:10], weights=False)
        assert starts.sizes == expected


def replace_unknown() -> None:
    """A command may say otherwise."""
    loaded = untrained_model(LogitBias(unknown=6.0, end=-3.0))
    usual = loaded.config.decoding.model_copy(update={"replace_unknown": True})
    replaced = Generator(replace(loaded, config=loaded.config.model_copy(update={"decoding": usual})))
    for text in ("a b", "c Zürich d"):
        assert "‹" not in "".join(Generator(loaded).generate(text).tokens)
        assert "‹" in "".join(replaced.generate(text).tokens)
        assert replaced.generate(text).text == Generator(loaded).generate(text, replace_unknown=True).text
        assert "‹" not in "".join(replaced.generate(text, replace_unknown=False).tokens)


def joint() -> None:
    """The larger, the more of the answers are those that the n-grams like best; by themselves they are not asked."""
    ids = [CharacterTokenizer("abcd").encode(word) for word in ("ab", "ba", "cd", "dc", "ac", "bd")]
    ngrams = count_ngrams(align([(word, word) for word in ids] * 4))
    plain = [answer.text for answer in answering(beam=5).generate(WORDS)]

    def others(weight: float) -> int:
        made = answering(beam=5, joint=weight)
        loaded = LoadedModel(made.config, made.model, made.source_tokenizer, made.target_tokenizer, {"joint": ngrams})
        return sum(answer.text != text for answer, text in zip(Generator(loaded).generate(WORDS), plain, strict=True))

    assert others(0.0) == 0 < others(0.2) < others(3.0)


DECODING_EFFECTS: dict[str, Callable[[], None]] = {
    "joint": joint,
    "replace_unknown": replace_unknown,
    "beam": beam,
    "length_penalty": length_penalty,
    "max_length": longest_answer,
    "batch_size": batch_size,
}


@pytest.mark.parametrize("key", DECODING_EFFECTS)
def test_the_key_of_decoding_does_what_it_says(key: str) -> None:
    DECODING_EFFECTS[key]()


EFFECTS: dict[type[BaseModel], set[str]] = {
    **{section: set(keys) for section, keys in test_model_options.MODEL_EFFECTS.items()},
    **{section: set(keys) for section, keys in DATA_EFFECTS.items()},
    **{section: set(keys) for section, keys in test_source_options.SOURCE_EFFECTS.items()},
    RegisteredEncoderConfig: set(test_registered_parts.ENCODER_EFFECTS),
    TrainingConfig: set(test_training_options.TRAINING_EFFECTS),
    **{section: set(keys) for section, keys in test_training_options.SECTION_EFFECTS.items()},
    NoiseConfig: set(test_learning_options.NOISE_EFFECTS),
    InfillConfig: set(test_learning_options.INFILL_EFFECTS),
    schema.EvaluationConfig: set(test_training_options.EVALUATION_EFFECTS),
    DecodingConfig: set(DECODING_EFFECTS),
    Config: {"data", "model", "training", "decoding", "evaluation"},  # the sections above
}


def kinds_of(section: type[Section]) -> list[type[Section]]:
    """Those that nothing is made from; the others only share keys."""
    made = section.__subclasses__()
    return [kind for one in made for kind in kinds_of(one)] if made else [section]


def test_every_key_of_every_section_has_an_effect() -> None:
    """A new key or a new section fails here until a table says what it does."""
    assert {section: set(section.model_fields) for section in kinds_of(Section)} == EFFECTS
