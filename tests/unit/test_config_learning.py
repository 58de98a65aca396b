"""Frozen parts, pretext tasks and scheduled sampling: what does not go together is named with the way out."""

from __future__ import annotations

import pytest

from antiphon.config.checks import check_config
from antiphon.config.load import put
from antiphon.config.schema import Config

ONE_TABLE = ["model.tie=all", "data.shared_vocabulary=true", "model.decoder.embedding=256"]
ALL_TIED = [*ONE_TABLE, "model.encoder.embedding=256"]
LANGUAGE = ["model.kind=language-model", "evaluation.metrics=[loss]"]
CONCATENATED = ["model.kind=concatenated", "model.decoder.kind=plain"]
GOOD = [
    ["model.encoder.freeze=true"],
    ["model.decoder.freeze=true", "model.tie=output", "model.decoder.embedding=256"],
    ["model.encoder.from=runs/lm", "model.decoder.from=runs/lm"],
    [*ALL_TIED],
    [*CONCATENATED, "model.decoder.freeze=true"],
    ["training.noise.mask=0.2", "training.noise.permute=true"],
    ["training.noise.infill=0.2", "training.noise.infill.span=2.0"],
    ["training.scheduled_sampling={probability: 0.3, schedule: exponential, updates: 100}"],
    ["model.decoder.kind=transformer", "model.decoder.norm=batch"],
    ["data.source.tokenizer=runs/a"],
    ["data.source.tokenizer=runs/a", "data.target.tokenizer=runs/a", "data.shared_vocabulary=true"],
]
BAD = [
    (["model.encoder.freeze=true", "model.decoder.freeze=true"], ["encoder.freeze and model.decoder.freeze", "one of"]),
    ([*LANGUAGE, "model.decoder.freeze=true"], ["model.decoder.freeze: nothing is left to learn", "set it to false"]),
    ([*ALL_TIED, "model.encoder.freeze=true"], ["model.encoder.freeze", "tie: all", "the decoder", "output or none"]),
    ([*ALL_TIED, "model.decoder.freeze=true"], ["model.decoder.freeze", "tie: all", "the encoder", "output or none"]),
    (
        ["model.tie=tables", "data.shared_vocabulary=true", "model.encoder.freeze=true"],
        ["model.encoder.freeze", "tie: tables", "the decoder", "output or none"],
    ),
    (
        [*CONCATENATED, *ONE_TABLE, "model.decoder.freeze=true"],
        ["model.decoder.freeze: nothing is left to learn"],
    ),
    ([*LANGUAGE, "training.dev_examples=100"], ["training.dev_examples: 100", "language model", "set it back to 500"]),
    ([*LANGUAGE, "training.noise.mask=0.1"], ["training.noise.mask", "language model", "leave it out"]),
    ([*LANGUAGE, "training.noise.permute=true"], ["training.noise.permute", "leave it out"]),
    (
        ["training.scheduled_sampling.probability=0.25", "model.decoder.kind=transformer", "model.decoder.norm=batch"],
        ["training.scheduled_sampling", "norm: batch", "set norm to layer"],
    ),
    (
        ["data.source.tokenizer=runs/a", "data.shared_vocabulary=true"],
        ["data.shared_vocabulary", "data.source.tokenizer runs/a", "data.target.tokenizer null"],
    ),
]


def problems(overrides: list[str]) -> list[str]:
    values: dict[str, object] = {"data": {"train": "pairs.tsv"}}
    for override in overrides:
        assert put(values, override) == []
    return check_config(Config.model_validate(values))


@pytest.mark.parametrize("overrides", GOOD, ids=" ".join)
def test_what_goes_together_is_let_pass(overrides: list[str]) -> None:
    assert problems(overrides) == []


@pytest.mark.parametrize(("overrides", "said"), BAD, ids=[" ".join(overrides) for overrides, _ in BAD])
def test_what_does_not_is_one_sentence(overrides: list[str], said: list[str]) -> None:
    [sentence] = problems(overrides)
    assert [words for words in said if words not in sentence] == []
