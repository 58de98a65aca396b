"""Parts from outside the package: every key of a registered encoder has its effect, and a metric is what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from model_cases import CONTEXTS, DECODERS, encoder_decoder
from tiny_models import INPUTS, ROWS, fill
from torch import Tensor, nn

import antiphon
from antiphon import registry
from antiphon.config.load import read_config
from antiphon.config.networks import ModelConfig, RegisteredEncoderConfig
from antiphon.data.batches import source_batch
from antiphon.errors import ConfigError, UserError
from antiphon.evaluation.metrics import Metric, cer, higher_is_better, metric_for
from antiphon.model_folder import load_weights
from antiphon.models.build import build_model
from antiphon.models.encoders.encoder import Encoder
from antiphon.sequence import Memory, Sequence

BASE = {"kind": "dense", "size": 8, "options": {"factor": 2.0}, "dropout": 0.0}


class DenseEncoder(Encoder):
    """h_j = factor W x_j"""

    def __init__(self, *, size: int, factor: float, wrong: int = 0) -> None:
        super().__init__()
        self.size = size + wrong
        self.factor = factor
        self.W = nn.Linear(size, size)

    def forward(self, source: Sequence) -> Memory:
        states = self.factor * self.W(source.values)
        return Memory(states, source.mask, final=Sequence(states, source.mask).last.unsqueeze(1))


class HalvingEncoder(DenseEncoder):
    """The same by half."""

    def forward(self, source: Sequence) -> Memory:
        memory = super().forward(source)
        return Memory(memory.states / 2, memory.mask, final=memory.final)


def shorter(output: str, references: tuple[str, ...]) -> float:
    """Characters that the shortest reference has less."""
    return max(0, len(output) - min(map(len, references)))


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_parts", {})
    antiphon.register_encoder("dense", DenseEncoder)
    antiphon.register_encoder("halving", HalvingEncoder)
    antiphon.register_metric("shorter", shorter, higher_is_better=False)


def model_config(**values: Any) -> ModelConfig:  # noqa: ANN401
    return encoder_decoder({**BASE, **values}, CONTEXTS["additive-soft"], DECODERS["bahdanau-gru"])


def learnt(**values: Any) -> Tensor:  # noqa: ANN401
    model = build_model(model_config(**values), source_tokens=11, target_tokens=11)
    fill(model)
    torch.manual_seed(1)
    return model.double().train()(source_batch(ROWS), INPUTS).logits


def seen(**values: Any) -> Callable[[Path], None]:  # noqa: ANN401
    def effect(_: Path) -> None:
        assert not torch.allclose(learnt(), learnt(**values))

    return effect


def weights(folder: Path, *overrides: str) -> dict[str, Tensor]:
    """Those of the encoder after two updates."""
    (folder / "pairs.tsv").write_text("a b c\tc b a\nb c\tc b\n", "utf-8")
    short = [f"data.train={folder}/pairs.tsv", "data.dev=null", "training.max_updates=2", "training.threads=1"]
    encoder = "model.encoder={kind: dense, size: 16, options: {factor: 2.0}}"
    out = folder / f"run{len(overrides)}"
    antiphon.train(read_config("reverse", [*short, encoder, *overrides]), out)
    return {name: tensor for name, tensor in load_weights(out).items() if name.startswith("encoder.")}


def from_run_and_freeze(folder: Path) -> None:
    first = weights(folder)
    same = weights(folder, f"model.encoder.from={folder}/run0", "model.encoder.freeze=true")
    trained = weights(folder, f"model.encoder.from={folder}/run0", "training.seed=5", "model.encoder.dropout=0.0")
    assert first.keys() == same.keys() == {"encoder.W.weight", "encoder.W.bias"}
    assert all(torch.equal(tensor, same[name]) for name, tensor in first.items())
    assert not any(torch.equal(tensor, trained[name]) for name, tensor in first.items())


ENCODER_EFFECTS: dict[str, Callable[[Path], None]] = {
    "kind": seen(kind="halving"),
    "size": seen(size=6),
    "options": seen(options={"factor": 3.0}),
    "ngrams": seen(ngrams=[3]),
    "dropout": seen(dropout=0.3),
    "from_run": from_run_and_freeze,
    "freeze": from_run_and_freeze,
}


@pytest.mark.parametrize("key", [key for key in ENCODER_EFFECTS if key != "freeze"])
def test_the_key_of_a_registered_encoder_does_what_it_says(key: str, tmp_path: Path) -> None:
    assert set(ENCODER_EFFECTS) == set(RegisteredEncoderConfig.model_fields)
    ENCODER_EFFECTS[key](tmp_path)


def test_states_of_another_size_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.encoder.size: the states of the encoder 'dense' are 9 wide, not 8"):
        learnt(options={"factor": 1.0, "wrong": 1})


def test_a_metric_is_the_mean_over_the_outputs() -> None:
    metric = metric_for("shorter", "words")
    assert metric(["abc", "a"], [("ab", "a"), ("abc",)]) == 1.0
    assert metric([], []) == 0.0
    assert not higher_is_better("shorter")
    assert metric.signature([]) == f"mean of {__name__}.shorter"


def test_a_metric_of_sums_is_taken_as_it_is() -> None:
    mine = Metric("mine", False, cer.statistics, cer.value, cer.signature)
    antiphon.register_metric("mine", mine)
    assert metric_for("mine", "words") is mine
    assert not higher_is_better("mine")


def test_an_unknown_metric_is_a_sentence() -> None:
    with pytest.raises(UserError, match="the metric 'blue' is neither built in nor registered; import the module"):
        metric_for("blue", "words")
