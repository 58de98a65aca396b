"""Three sources, of which the third says which of the others to copy: an answer needs them all, and their marks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import antiphon
from antiphon.config.schema import Config
from antiphon.training.display import Display
from antiphon.training.run import train_run

WORDS: dict[str, Any] = {"tokens": "words"}
GRU: dict[str, Any] = {"kind": "gru", "embedding": 24, "size": 24, "dropout": 0.0}


def lines(count: int, seed: int) -> str:
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        first, second = (" ".join(draw.choices("abcdef", k=draw.randint(1, 3))) for _ in range(2))
        which = draw.choice(("first", "second"))
        rows.append(f"{first}\t{second}\t{which}\t{first if which == 'first' else second}\n")
    return "".join(rows)


@pytest.mark.parametrize("encoder", [GRU, [GRU, GRU, GRU]], ids=["joint", "apart"])
def test_copy_the_one_that_is_asked_for(encoder: object, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text(lines(1200, seed=1))
    (tmp_path / "test.tsv").write_text(lines(150, seed=2))
    values = {
        "data": {
            "train": str(tmp_path / "train.tsv"),
            "source": [{**WORDS, "column": number} for number in range(3)],
            "target": {**WORDS, "column": 3},
        },
        "model": {
            "encoder": encoder,
            "context": {"score": "bilinear"},
            "decoder": {"kind": "luong", "cell": "gru", "embedding": 24, "size": 48, "dropout": 0.0},
        },
        "training": {
            "epochs": 15,
            "batch_tokens": 512,
            "learning_rate": 1e-2,
            "schedule": {"warmup": 20},
            "evaluate_every": 135,
        },
        "decoding": {"max_length": 6, "beam": 1},
        "evaluation": {"metrics": ["exact_match"]},
    }
    train_run(Config.model_validate(values), tmp_path / "run", display=Display())
    generator = antiphon.load(tmp_path / "run")
    result = antiphon.evaluate(generator, str(tmp_path / "test.tsv"))
    assert result.values["exact_match"].value >= 90.0
    looks_at_the_source_that_it_copies(generator)


def looks_at_the_source_that_it_copies(generator: antiphon.Generator) -> None:
    """The weights of the words lie on the part that is copied."""
    for which, chosen in (("first", 0), ("second", 1)):
        answer = generator.generate(f"a b c\td e f\t{which}")
        assert [part.text for part in answer.spans] == ["a b c", "d e f", which]
        assert answer.weights is not None
        assert answer.weights.shape[1] == len(answer.source_tokens)
        shares = [np.sum(answer.weights[:3, part.first : part.last + 1]) for part in answer.spans]
        assert shares[chosen] > 2 * shares[1 - chosen]
