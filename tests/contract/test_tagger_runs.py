"""Whole runs of a tagger: it learns, it resumes to the last bit, and its encoder is reused in an encoder-decoder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import Ran, run, same

from antiphon.api import evaluate, export_model, joint, load, shortlist
from antiphon.config.schema import Config
from antiphon.errors import UserError

pytestmark = pytest.mark.usefixtures("no_pictures")
ENCODER = {"kind": "gru", "embedding": 12, "size": 8, "dropout": 0.1}
WORDS = {"the": "D", "a": "D", "cat": "N", "dogs": "N", "sees": "V", "walking": "V"}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each word has its own label."""
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    words = list(WORDS)
    rows = [[words[(n * (k + 3) + k * k) % 6] for k in range(2 + n % 4)] for n in range(90)]
    path.write_text("".join(f"{' '.join(row)}\t{' '.join(WORDS[word] for word in row)}\n" for row in rows))
    return path


def config(pairs: Path, **training: Any) -> Config:  # noqa: ANN401
    return Config.model_validate(
        {
            "data": {"train": str(pairs), "source": {"affixes": True}, "hold_out": 0.2},
            "model": {"kind": "tagger", "encoder": ENCODER},
            "training": {
                "epochs": 6, "batch_tokens": 32, "learning_rate": 0.02, "schedule": {"kind": "constant", "warmup": 0},
                "label_smoothing": 0.05, "metric": "token_accuracy", **training,
            },
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def taught(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run(config(pairs), tmp_path_factory.mktemp("runs") / "tagger")


def test_it_learns_and_is_evaluated(taught: Ran, pairs: Path) -> None:
    found = evaluate(load(taught.folder), str(pairs), metrics=["token_accuracy", "loss"]).values
    assert found["token_accuracy"].value > 95
    assert found["loss"].value < 0.3
    assert load(taught.folder).generate("the running dogs").tokens[-1] == "</s>"


def test_a_resumed_run_is_the_same(taught: Ran, pairs: Path, tmp_path: Path) -> None:
    run(config(pairs, epochs=3), tmp_path / "run")
    assert same(run(config(pairs), tmp_path / "run").last(), taught.last())


def test_its_encoder_begins_an_encoder_decoder(taught: Ran, pairs: Path, tmp_path: Path) -> None:
    """With its tokenizer, and so its affixes; frozen, it stays as it was."""
    values = {
        "data": {
            "train": str(pairs), "hold_out": 0.2,
            "source": {"tokens": "words", "affixes": True, "tokenizer": str(taught.folder)},
            "target": {"column": 1, "tokens": "words"},
        },
        "model": {
            "encoder": {**ENCODER, "from": str(taught.folder), "freeze": True},
            "decoder": {"kind": "bahdanau", "cell": "gru", "embedding": 6, "size": 8},
        },
        "training": {"max_updates": 4, "batch_tokens": 64},
        "decoding": {"max_length": 8},
    }  # fmt: skip
    reused = run(Config.model_validate(values), tmp_path / "reused")
    before, after = taught.weights, reused.weights
    shared = [name for name in before if not name.startswith("decoder.")]
    assert all(bool(before[name].any()) for name in shared if "affixes" in name), "from 0 on, all of them have learnt"
    assert sum("affixes" in name for name in shared) == 4
    assert all(torch.equal(before[name], after[name]) for name in shared)
    assert any("tensors copied" in line for line in reused.watch.said)


@pytest.mark.parametrize("learn", [joint, shortlist])
def test_side_models_are_refused(taught: Ran, learn: Callable[[Path], object]) -> None:
    with pytest.raises(UserError, match="learnt from known tokens, and this run labels tokens; use another run"):
        learn(taught.folder)


@pytest.mark.parametrize("engine", ["onnx", "ctranslate2", "huggingface"])
def test_an_export_is_refused(taught: Ran, tmp_path: Path, engine: str) -> None:
    with pytest.raises(UserError, match=r"model\.kind: an export writes answers token by token, not labels"):
        export_model(taught.folder, engine, tmp_path / "export")
