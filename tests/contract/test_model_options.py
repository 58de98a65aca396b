"""Every key of the model's configuration changes what the model computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import BaseModel
from tiny_models import choices, decoder, encoder, tiny_model
from torch import Tensor, nn

from antiphon.config.schema import (
    AttentionConfig,
    BahdanauConfig,
    LuongConfig,
    ModelConfig,
    RecurrentEncoderConfig,
)
from antiphon.sources.batches import source_batch

ONLY_CHOICE = object()  # a word with one meaning so far; a second one needs an effect
ENCODER, CONTEXT = encoder("gru", layers=2), AttentionConfig()
BAHDANAU, LUONG = decoder("bahdanau", layers=2), decoder("luong", layers=2)

# Section, key → values other than the ones above. Each has to give other logits than they.
MODEL_EFFECTS: dict[type[BaseModel], dict[str, Any]] = {
    RecurrentEncoderConfig: {
        "kind": ["rnn", "lstm"],
        "embedding": [3],
        "size": [5],
        "layers": [1, 3],
        "bidirectional": [False],
        "dropout": [0.3],
    },
    AttentionConfig: {"kind": ONLY_CHOICE, "score": ["dot", "bilinear"], "alignment": ONLY_CHOICE, "size": [3]},
    BahdanauConfig: {
        "kind": ONLY_CHOICE,
        "cell": ["rnn", "lstm"],
        "embedding": [3],
        "size": [5],
        "layers": [1, 3],
        "dropout": [0.3],
    },
    LuongConfig: {
        "kind": ONLY_CHOICE,
        "cell": ["rnn", "lstm"],
        "embedding": [3],
        "size": [5],
        "layers": [1, 3],
        "dropout": [0.3],
        "input_feeding": [True],
    },
    ModelConfig: {
        "kind": ONLY_CHOICE,
        "encoder": [encoder("lstm")],
        "context": [AttentionConfig(score="bilinear")],
        "decoder": [LUONG],
    },
}
SINGLE = [
    (section, key) for section, keys in MODEL_EFFECTS.items() for key, value in keys.items() if value is ONLY_CHOICE
]
EFFECTS = [
    pytest.param(section, key, value, id=f"{section.__name__}.{key}={value if not isinstance(value, BaseModel) else 2}")
    for section, keys in MODEL_EFFECTS.items()
    for key, values in keys.items()
    if values is not ONLY_CHOICE
    for value in values
]


def whole(section: type[BaseModel], key: str | None = None, value: Any = None) -> ModelConfig:  # noqa: ANN401
    """A model in which this section has one other value."""
    change = {key: value} if key else {}
    parts = {"encoder": ENCODER, "context": CONTEXT, "decoder": LUONG if section is LuongConfig else BAHDANAU}
    if section is ModelConfig:
        return ModelConfig(**{**parts, **change})
    return ModelConfig(
        **{name: part.model_copy(update=change) if type(part) is section else part for name, part in parts.items()}
    )


def logits_in_training(config: ModelConfig) -> Tensor:
    model = tiny_model(config).train()
    torch.manual_seed(1)
    return model(source_batch([[4, 5, 6, 7], [6, 4]]), torch.tensor([[1, 4, 5, 6], [1, 7, 8, 4]])).logits


@pytest.mark.parametrize("section", MODEL_EFFECTS, ids=lambda section: section.__name__)
def test_every_key_is_in_the_table(section: type[BaseModel]) -> None:
    assert set(MODEL_EFFECTS[section]) == set(section.model_fields)


@pytest.mark.parametrize(("section", "key"), SINGLE, ids=lambda value: getattr(value, "__name__", value))
def test_a_key_without_effect_has_one_choice(section: type[BaseModel], key: str) -> None:
    assert len(choices(section, key)) == 1


@pytest.mark.parametrize(("section", "key"), [(RecurrentEncoderConfig, "kind"), (AttentionConfig, "score")])
def test_every_choice_is_in_the_table(section: type[BaseModel], key: str) -> None:
    now = getattr(ENCODER if section is RecurrentEncoderConfig else CONTEXT, key)
    assert {now, *MODEL_EFFECTS[section][key]} == set(choices(section, key))


@pytest.mark.parametrize(("section", "key", "value"), EFFECTS)
def test_the_key_changes_the_logits(section: type[BaseModel], key: str, value: Any) -> None:  # noqa: ANN401
    before, after = logits_in_training(whole(section)), logits_in_training(whole(section, key, value))
    assert before.shape == after.shape
    assert not torch.allclose(before, after, rtol=1e-3, atol=1e-4)


def test_sizes_are_those_of_the_config() -> None:
    config = ModelConfig(
        encoder=RecurrentEncoderConfig(embedding=3, size=5, layers=2, bidirectional=True),
        context=AttentionConfig(size=7),
        decoder=LuongConfig(embedding=4, size=6, layers=3, input_feeding=True),
    )
    shapes = {name: tuple(tensor.shape) for name, tensor in tiny_model(config).named_parameters()}
    assert shapes["source.embedding.table.weight"] == (11, 3)
    assert shapes["encoder.layers.1.directions.1.network.weight_ih_l0"] == (4 * 5, 2 * 5)
    assert shapes["decoder.context.score.W.weight"] == (7, 6)
    assert shapes["decoder.context.score.U.weight"] == (7, 2 * 5)
    assert shapes["decoder.stack.network.weight_ih_l0"] == (4 * 6, 4 + 6)
    assert shapes["decoder.stack.network.weight_hh_l2"] == (4 * 6, 6)
    assert shapes["decoder.bridge.dense.1.2.weight"] == (6, 2 * 5)
    assert shapes["decoder.output.weight"] == (9, 6)


PLACES = {
    "encoder": ["source.embedding.dropout", "encoder.dropout"],
    "decoder": ["decoder.embedding.dropout", "decoder.stack.network", "decoder.dropout"],
}


@pytest.mark.parametrize("kind", [BAHDANAU, LUONG, LUONG.model_copy(update={"input_feeding": True})])
@pytest.mark.parametrize(("side", "place"), [(side, place) for side, places in PLACES.items() for place in places])
def test_dropout_acts_in_each_place_that_it_names(kind: BahdanauConfig | LuongConfig, side: str, place: str) -> None:
    """On embeddings, between layers, on the output: each alone changes training, none changes use."""
    parts = {"encoder": ENCODER, "decoder": kind}
    parts[side] = parts[side].model_copy(update={"dropout": 0.4})
    model, still = tiny_model(ModelConfig(**parts)), tiny_model(ModelConfig(encoder=ENCODER, decoder=kind))
    for name, module in model.named_modules():
        if isinstance(module, nn.Dropout) and name != place:
            module.p = 0.0
        if isinstance(module, nn.RNNBase) and name != place:
            module.dropout = 0.0
    source, inputs = source_batch([[4, 5, 6, 7], [6, 4]]), torch.tensor([[1, 4, 5, 6], [1, 7, 8, 4]])
    expected = still(source, inputs).logits
    assert torch.equal(model(source, inputs).logits, expected)
    assert not torch.allclose(model.train()(source, inputs).logits, expected)
