"""Words that training never saw: only a model that copies can say them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.config.schema import Config
from antiphon.training.display import SilentDisplay
from antiphon.training.train import train_run

WORDS = [f"w{number}" for number in range(90)]
SEEN, NEW = WORDS[:60], WORDS[60:]  # a third occurs in no example
GRU: dict[str, Any] = {"kind": "gru", "embedding": 32, "size": 32, "dropout": 0.1}
LUONG: dict[str, Any] = {"kind": "luong", "cell": "gru", "embedding": 32, "size": 64, "dropout": 0.1}
BAHDANAU: dict[str, Any] = {**LUONG, "kind": "bahdanau"}
BLOCKS: dict[str, Any] = {
    "kind": "transformer", "size": 48, "layers": 2, "heads": 2, "feedforward": 96, "dropout": 0.1
}  # fmt: skip
MODELS = {
    "bahdanau": {"encoder": GRU, "decoder": BAHDANAU},
    "luong": {"encoder": GRU, "decoder": LUONG},
    "transformer": {"encoder": BLOCKS, "decoder": BLOCKS},
}


def line(draw: random.Random, words: list[str]) -> tuple[str, str]:
    x, y = draw.sample(words, 2)
    return draw.choice(
        [(f"say {x} twice", f"{x} and {x}"), (f"say {x} before {y}", f"{x} {y}"), (f"say {x} after {y}", f"{y} {x}")]
    )


def lines(words: list[str], count: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return [line(draw, words) for _ in range(count)]


def trained(model: dict[str, Any], copy: bool, folder: Path) -> antiphon.Generator:
    table = "".join(f"{source}\t{target}\n" for source, target in lines(SEEN, 1000, seed=1))
    (folder / "train.tsv").write_text(table)
    values = {
        "data": {
            "train": str(folder / "train.tsv"),
            "source": {"tokens": "words"},
            "target": {"tokens": "words", "column": 1},
        },
        "model": {**model, "copy": copy},
        "training": {"epochs": 12, "batch_tokens": 256, "learning_rate": 5e-3, "warmup": 20, "evaluate_every": 60},
        "decoding": {"max_length": 6, "beam": 1},
    }
    run = folder / f"copy-{copy}"
    train_run(Config.model_validate(values), run, display=SilentDisplay())
    return antiphon.load(run)


def right(generator: antiphon.Generator, asked: list[tuple[str, str]]) -> float:
    """Per cent."""
    answers = generator.generate([source for source, _ in asked], replace_unknown=True, weights=False)
    good = [answer.text == target for answer, (_, target) in zip(answers, asked, strict=True)]
    return 100.0 * sum(good) / len(good)


@pytest.mark.parametrize("name", MODELS)
def test_words_that_training_never_saw(name: str, tmp_path: Path) -> None:
    asked = lines(NEW, 100, seed=2)
    without = trained(MODELS[name], False, tmp_path)
    assert right(without, asked) == 0.0
    generator = trained(MODELS[name], True, tmp_path)
    r = right(generator, asked)
    print(name, right(without, lines(SEEN,100,3)), right(generator, lines(SEEN,100,3)), r)
    a = generator.generate("say w3 twice", replace_unknown=True); print(a.text, a.copied)
    a = generator.generate("say w80 twice", replace_unknown=True); print(a.text, a.copied)
    assert r >= 95.0
