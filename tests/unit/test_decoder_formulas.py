"""The recurrent decoders, contexts and bridges against written-out loops over plain Python numbers."""

from __future__ import annotations

import math
from itertools import product
from typing import get_args

import pytest
import torch
from model_cases import PLAIN, STATICS
from tiny_models import decoder, encoder, tiny_model
from torch import nn

from antiphon.config.networks import (
    AttentionConfig,
    Cell,
    ConcatenatedConfig,
    EncoderDecoderConfig,
    LanguageModelConfig,
    StaticContextConfig,
)
from antiphon.data.batches import source_batch
from antiphon.models.decoders.decoder import BahdanauDecoder, LuongDecoder
from antiphon.models.layers.recurrent import RecurrentStack
from antiphon.models.model import EncoderDecoder, SequenceModel
from antiphon.sequence import Memory

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
    if stack.cell == "rnn-relu":
        return [[max(0.0, value) for value in plus(*gates[0])]]
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
CASES = list(product(KINDS, get_args(Cell), [(1, 1), (2, 1), (1, 2)]))
NAMES = [f"{kind}{'-fed' if fed else ''}-{cell}-{up}-{down}" for (kind, fed), cell, (up, down) in CASES]


@pytest.mark.parametrize(("kind", "cell", "layers"), CASES, ids=NAMES)
def test_decoder_is_its_formula(kind: tuple[str, bool], cell: str, layers: tuple[int, int]) -> None:
    config = EncoderDecoderConfig(
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
        model = tiny_model(EncoderDecoderConfig(encoder=encoder(), decoder=decoder("luong", feed=fed)))
        assert isinstance(model.decoder, LuongDecoder)
        assert torch.equal(model.start(source).attended, torch.zeros(2, width, dtype=torch.float64))


def plain(model: SequenceModel, words: list[Vector], layers: list[list[Vector]], fed: Vector) -> list[Vector]:
    """s_i = g(s_{i-1}, [y_{i-1}; c]) and logits W s_i, for every step."""
    made = []
    for word in words:
        layers = stacked(model.decoder.stack, word + fed, layers)
        made.append(dense(model.decoder.output, layers[-1][0]))
    return made


def static(model: EncoderDecoder, kind: str, memory: Memory) -> list[Vector]:
    """c for each layer of the encoder: its last state; or the mean or maximum of the top states, for all alike."""
    if kind == "last":
        finals: list[Vector] = memory.final[0].tolist()
        return finals[-model.decoder.stack.layers :]
    columns = [list(column) for column in zip(*memory.states[0].tolist(), strict=True)]
    return [[max(column) if kind == "max" else sum(column) / len(column) for column in columns]]


def zeros(stack: RecurrentStack) -> list[list[Vector]]:
    return [[[0.0] * stack.size for _ in range(stack.parts)] for _ in range(stack.layers)]


def static_first_state(model: EncoderDecoder, context: StaticContextConfig, c: list[Vector]) -> list[list[Vector]]:
    """The first state: nothing, c itself (an LSTM's carry begins at 0), or dense layers of c."""
    layers = zeros(model.decoder.stack)
    for height, state in enumerate(layers if context.feed != "every-step" else []):
        below = c[min(height, len(c) - 1)]
        if context.bridge == "direct":
            state[0] = below
        else:
            state[:] = [tanh(dense(part[height], below)) for part in model.decoder.context.bridge.dense]
    return layers


@pytest.mark.parametrize("layers", [(1, 1), (2, 2), (1, 3), (3, 1), (3, 2)])
@pytest.mark.parametrize("name", STATICS)
def test_plain_decoder_is_its_formula(name: str, layers: tuple[int, int]) -> None:
    context = StaticContextConfig.model_validate(STATICS[name])
    cell = get_args(Cell)[sum(layers) % len(get_args(Cell))]
    down = {**PLAIN[f"plain-{cell}"], "layers": layers[1]}
    parts = {"encoder": encoder(layers=layers[0]), "context": context, "decoder": down}
    model = tiny_model(EncoderDecoderConfig.model_validate(parts))
    source, tokens = source_batch([[4, 5, 6]]), [1, 5, 7, 4]
    c = static(model, context.kind, model.encoder(model.source(source)))
    words = model.decoder.embedding.table.weight[tokens].tolist()
    expected = plain(model, words, static_first_state(model, context, c), [] if context.feed == "start" else c[-1])
    for row, logits in zip(model(source, torch.tensor([tokens])).logits[0].tolist(), expected, strict=True):
        assert row == pytest.approx(logits, abs=1e-9)


@pytest.mark.parametrize("cell", get_args(Cell))
def test_one_network_reads_the_source_then_writes_the_target(cell: str) -> None:
    """A language model begins at 0; the concatenated model begins where reading has left it."""
    decoder = {**PLAIN[f"plain-{cell}"], "layers": 2}
    source, tokens = source_batch([[4, 5, 6], [7]]), [1, 5, 7, 4]
    inputs = torch.tensor([tokens, tokens])
    for section in (LanguageModelConfig, ConcatenatedConfig):
        model = tiny_model(section.model_validate({"decoder": decoder}))
        logits = model(source, inputs).logits
        words = model.decoder.embedding.table.weight[tokens].tolist()
        for row, read in enumerate(([4, 5, 6, 2], [7, 2])):  # </s> is the separator
            layers = zeros(model.decoder.stack)
            for vector in model.source.embedding.table.weight[read].tolist() if section is ConcatenatedConfig else []:
                layers = stacked(model.decoder.stack, vector, layers)
            for found, expected in zip(logits[row].tolist(), plain(model, words, layers, []), strict=True):
                assert found == pytest.approx(expected, abs=1e-9)
