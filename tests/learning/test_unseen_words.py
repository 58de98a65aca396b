"""Words that training never saw: only a model that copies can say them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.config.schema import Config
from antiphon.training.display import Display
from antiphon.training.run import train_run

WORDS = [f"w{number}" for number in range(90)]
SEEN, NEW = WORDS[:60], WORDS[60:]  # a third occurs in no example
GRU: dict[str, Any] = {"kind": "gru", "embedding": 24, "size": 24, "dropout": 0.1}
LUONG: dict[str, Any] = {"kind": "luong", "cell": "gru", "embedding": 24, "size": 48, "dropout": 0.1}
BLOCKS: dict[str, Any] = {
    "kind": "transformer", "size": 32, "layers": 2, "heads": 2, "feedforward": 64, "dropout": 0.1
}  # fmt: skip
MODELS = {"luong": {"encoder": GRU, "decoder": LUONG}, "transformer": {"encoder": BLOCKS, "decoder": BLOCKS}}


def twice(x: str, y: str) -> tuple[str, str]:  # noqa: ARG001 (the others say both)
    return f"say {x} twice", f"{x} and {x}"


def before(x: str, y: str) -> tuple[str, str]:
    return f"say {x} before {y}", f"{x} {y}"


Way = Callable[[str, str], tuple[str, str]]
WAYS: list[Way] = [twice, before]
# What is asked. So small a Transformer does not know by then when two words are enough.
ASKED: dict[str, list[Way]] = {"luong": WAYS, "transformer": [twice]}


def lines(ways: list[Way], count: int, seed: int, *, new: bool) -> list[tuple[str, str]]:
    """If `new`, the first word of each is one that training never saw."""
    draw = random.Random(seed)
    return [draw.choice(ways)(draw.choice(NEW if new else SEEN), draw.choice(SEEN)) for _ in range(count)]


def trained(model: dict[str, Any], copy: bool, folder: Path) -> antiphon.Generator:
    table = "".join(f"{source}\t{target}\n" for source, target in lines(WAYS, 800, seed=1, new=False))
    (folder / "train.tsv").write_text(table)
    values = {
        "data": {
            "train": str(folder / "train.tsv"),
            "source": {"tokens": "words"},
            "target": {"tokens": "words", "column": 1},
        },
        "model": {**model, "copy": copy},
        "training": {
            "epochs": 10,
            "batch_tokens": 128,
            "learning_rate": 5e-3,
            "schedule": {"warmup": 20},
            "evaluate_every": 300,
        },
        "decoding": {"max_length": 6, "beam": 1},
    }
    run = folder / f"copy-{copy}"
    train_run(Config.model_validate(values), run, display=Display())
    return antiphon.load(run)


def right(generator: antiphon.Generator, asked: list[tuple[str, str]]) -> float:
    """Per cent."""
    answers = generator.generate([source for source, _ in asked], replace_unknown=True, weights=False)
    good = [answer.text == target for answer, (_, target) in zip(answers, asked, strict=True)]
    return 100.0 * sum(good) / len(good)


@pytest.mark.parametrize("name", MODELS)
def test_words_that_training_never_saw(name: str, tmp_path: Path) -> None:
    generator = trained(MODELS[name], True, tmp_path)
    assert right(generator, lines(ASKED[name], 100, seed=2, new=True)) >= 95.0
    is_copied_where_words_are_the_source_s(generator)


def test_without_copying_there_are_no_such_words(tmp_path: Path) -> None:
    generator = trained(MODELS["luong"], False, tmp_path)
    assert right(generator, lines(WAYS, 100, seed=3, new=False)) >= 50.0
    assert right(generator, lines(WAYS, 100, seed=2, new=True)) == 0.0


def is_copied_where_words_are_the_source_s(generator: antiphon.Generator) -> None:
    """The words are, "and" and </s> are not; and <unk> is only said where a word is put in its place."""
    for word in ("w3", "w80"):
        answer = generator.generate(f"say {word} twice", replace_unknown=True)
        assert answer.text == f"{word} and {word}"
        assert answer.copied is not None
        first, between, second, end = answer.copied
        assert min(first, second) > 0.9
        assert max(between, end) < 0.1
    assert "w80" not in generator.generate("say w80 twice").text
