"""Both decoders and the bridge against written-out loops over plain Python numbers."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from tiny_models import decoder, encoder, tiny_model
from torch import nn

from antiphon.config.schema import AttentionConfig, ModelConfig
from antiphon.decoders.bahdanau import BahdanauDecoder
from antiphon.decoders.luong import LuongDecoder
from antiphon.decoders.stack import RecurrentStack
from antiphon.model import EncoderDecoder
from antiphon.sources.batches import source_batch

Vector = list[float]


def dot(left: Vector, right: Vector) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def plus(*vectors: Vector) -> Vector:
    return [sum(column) for column in zip(*vectors, strict=True)]


def tanh(vector: Vector) -> Vector:
    return [math.tanh(value) for value in vector]


def sigmoid(vector: Vector) -> Vector:
    return [1 / (1 + math.exp(-value)) for value in vector]


def affine(weight: torch.Tensor, bias: torch.Tensor, vector: Vector) -> Vector:
    return [dot(row, vector) + b for row, b in zip(weight.tolist(), bias.tolist(), strict=True)]


def dense(layer: nn.Linear, vector: Vector) -> Vector:
    return affine(layer.weight, layer.bias, vector)


def mixed(share: Vector, left: Vector, right: Vector) -> Vector:
    return [z * a + (1 - z) * b for z, a, b in zip(share, left, right, strict=True)]


def cell(stack: RecurrentStack, layer: int, x: Vector, state: list[Vector]) -> list[Vector]:
    """One step of one layer: RNN, GRU or LSTM as in the textbooks (torch's order of the gates)."""
    names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    w_x, b_x, w_h, b_h = (getattr(stack.network, f"{name}_l{layer}") for name in names)
    from_x, from_h, H = affine(w_x, b_x, x), affine(w_h, b_h, state[0]), stack.size
    gates = [(from_x[start : start + H], from_h[start : start + H]) for start in range(0, len(from_x), H)]
    if stack.cell == "rnn":
        return [tanh(plus(*gates[0]))]
    if stack.cell == "gru":
        reset, update = sigmoid(plus(*gates[0])), sigmoid(plus(*gates[1]))
        new = tanh([a + r * b for a, r, b in zip(gates[2][0], reset, gates[2][1], strict=True)])
        return [mixed(update, state[0], new)]
    enter, forget, leave = (sigmoid(plus(*gates[number])) for number in (0, 1, 3))
    carry = [f * old + i * new for f, old, i, new in zip(forget, state[1], enter, tanh(plus(*gates[2])), strict=True)]
    return [[o * math.tanh(value) for o, value in zip(leave, carry, strict=True)], carry]


def stacked(stack: RecurrentStack, x: Vector, layers: list[list[Vector]]) -> list[list[Vector]]:
    """One step of all layers; a layer's state is [s] or [s, carry]."""
    after = []
    for number, state in enumerate(layers):
        after.append(cell(stack, number, x, state))
        x = after[-1][0]
    return after


def first_state(model: EncoderDecoder, final: list[Vector]) -> list[list[Vector]]:
    """s_0 = tanh(W h_n), from the encoder layer of the same height, or the top one."""
    parts = model.decoder.bridge.dense
    heights = range(model.decoder.stack.layers)
    return [[tanh(dense(part[height], final[min(height, len(final) - 1)])) for part in parts] for height in heights]


def look(model: EncoderDecoder, query: Vector, states: list[Vector]) -> tuple[Vector, Vector]:
    """Bilinear attention: weights over the states and their weighted sum."""
    W = model.decoder.context.score.W.weight.tolist()
    scores = [dot(query, [dot(row, state) for row in W]) for state in states]
    powers = [math.exp(score) for score in scores]
    weights = [power / sum(powers) for power in powers]
    return weights, [dot(weights, list(column)) for column in zip(*states, strict=True)]


def bahdanau(model: EncoderDecoder, words: list[Vector], states: list[Vector], layers: list[list[Vector]]) -> list:
    made = []
    for word in words:
        weights, context = look(model, layers[-1][0], states)
        layers = stacked(model.decoder.stack, word + context, layers)
        output = tanh(dense(model.decoder.combine, layers[-1][0] + context + word))
        made.append((dense(model.decoder.output, output), weights))
    return made


def luong(model: EncoderDecoder, words: list[Vector], states: list[Vector], layers: list[list[Vector]]) -> list:
    made, output = [], [0.0] * model.decoder.stack.size
    for word in words:
        fed = word + output if model.decoder.input_feeding else word
        layers = stacked(model.decoder.stack, fed, layers)
        weights, context = look(model, layers[-1][0], states)
        output = tanh(dense(model.decoder.combine, layers[-1][0] + context))
        made.append((dense(model.decoder.output, output), weights))
    return made


KINDS = [("bahdanau", False), ("luong", False), ("luong", True)]
CASES = list(product(KINDS, ("rnn", "gru", "lstm"), [(1, 1), (2, 1), (1, 2)]))
NAMES = [f"{kind}{'-fed' if fed else ''}-{cell}-{up}-{down}" for (kind, fed), cell, (up, down) in CASES]


@pytest.mark.parametrize(("kind", "cell", "layers"), CASES, ids=NAMES)
def test_decoder_is_its_formula(kind: tuple[str, bool], cell: str, layers: tuple[int, int]) -> None:
    config = ModelConfig(
        encoder=encoder(layers=layers[0]),
        context=AttentionConfig(score="bilinear"),
        decoder=decoder(kind[0], cell, layers[1], kind[1]),
    )
    model = tiny_model(config)
    source, tokens = source_batch([[4, 5, 6]]), [1, 5, 7, 4]
    memory = model.encoder(model.source(source))
    words = model.decoder.embedding.table.weight[tokens].tolist()
    loop = bahdanau if isinstance(model.decoder, BahdanauDecoder) else luong
    expected = loop(model, words, memory.states[0].tolist(), first_state(model, memory.final[0].tolist()))
    step = model(source, torch.tensor([tokens]))
    for position, (logits, weights) in enumerate(expected):
        assert step.logits[0, position].tolist() == pytest.approx(logits, abs=1e-9)
        assert step.weights[0, position].tolist() == pytest.approx(weights, abs=1e-9)


def test_first_attended_state_is_zero_and_only_there_with_input_feeding() -> None:
    source = source_batch([[4, 5, 6], [7]])
    for fed, width in ((True, 8), (False, 0)):
        model = tiny_model(ModelConfig(encoder=encoder(), decoder=decoder("luong", feed=fed)))
        assert isinstance(model.decoder, LuongDecoder)
        assert torch.equal(model.start(source).attended, torch.zeros(2, width, dtype=torch.float64))
