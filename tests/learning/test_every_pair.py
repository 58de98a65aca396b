"""Each decoder with each score learns to copy, reverse and sort short strings, from a drawn and printed seed."""

from __future__ import annotations

import random
import secrets
from pathlib import Path

import pytest

import antiphon
from antiphon.build import SCORES
from antiphon.config.schema import Config

TASKS = {"copy": lambda letters: letters, "reverse": lambda letters: letters[::-1], "sort": sorted}
DECODERS = {
    "bahdanau": {"kind": "bahdanau"},
    "luong": {"kind": "luong"},
    "luong, fed": {"kind": "luong", "input_feeding": True},
}
CASES = [(decoder, score, list(TASKS)[number % 3]) for number, (decoder, score) in enumerate(
    (decoder, score) for decoder in DECODERS for score in SCORES
)]  # fmt: skip
CELLS = ["gru", "lstm"]


def write(path: Path, task: str, draw: random.Random, count: int) -> str:
    """Strings of 1 to 4 of the letters a-f; the answers of all of them can be known only by the rule."""
    lines = []
    for _ in range(count):
        letters = draw.choices("abcdef", k=draw.randint(1, 4))
        lines.append(" ".join(letters) + "\t" + " ".join(TASKS[task](letters)) + "\n")
    path.write_text("".join(lines), "utf-8")
    return str(path)


@pytest.mark.parametrize(("decoder", "score", "task"), CASES)
def test_it_learns(tmp_path: Path, decoder: str, score: str, task: str) -> None:
    seed = secrets.randbelow(2**31)
    print(f"seed {seed}")
    draw = random.Random(seed)
    side = {"tokens": "words"}
    cell = draw.choice(CELLS)
    config = Config.model_validate(
        {
            "data": {
                "train": write(tmp_path / "train.tsv", task, draw, 3000),
                "dev": write(tmp_path / "dev.tsv", task, draw, 200),
                "source": {**side, "column": 0},
                "target": {**side, "column": 1},
            },
            "model": {
                "encoder": {"kind": cell, "size": 32, "embedding": 32, "dropout": 0.0},
                "context": {"score": score},
                "decoder": {**DECODERS[decoder], "cell": cell, "size": 64, "embedding": 32, "dropout": 0.0},
            },
            "training": {
                "epochs": 12,
                "batch_tokens": 256,
                "learning_rate": 0.006,
                "schedule": "cosine",
                "warmup": 20,
                "metric": "exact_match",
                "patience": 6,
                "seed": seed,
            },
            "decoding": {"beam": 1, "max_length": 10},
            "evaluation": {"metrics": ["exact_match"]},
        }
    )
    model = antiphon.load(antiphon.train(config, tmp_path / "run"))
    test = write(tmp_path / "test.tsv", task, draw, 300)
    assert antiphon.evaluate(model, test).values["exact_match"].value >= 98.0
