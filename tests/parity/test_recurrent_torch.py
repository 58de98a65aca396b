"""Our encoder and decoder layers against torch.nn with the same weights."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any, get_args

import pytest
import torch
from tiny_models import close, fill
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from antiphon.models.encoders.encoder import NoEncoder
from antiphon.models.encoders.rnn import RecurrentEncoder
from antiphon.models.layers.recurrent import (
    CellKind,
    RecurrentStack,
    initialize_recurrent,
    recurrent_network,
    reverse_padded,
)
from antiphon.sequence import Sequence

LENGTHS = torch.tensor([2, 7, 1, 4])
NETWORKS = {"rnn": nn.RNN, "rnn-relu": partial(nn.RNN, nonlinearity="relu"), "gru": nn.GRU, "lstm": nn.LSTM}
KINDS: tuple[CellKind, ...] = get_args(CellKind)
B, S, D, H = 4, 7, 5, 8


def values(*shape: int) -> Tensor:
    return torch.cos(torch.arange(torch.Size(shape).numel(), dtype=torch.float64) * 0.7).reshape(shape)


def torch_twin(encoder: RecurrentEncoder, kind: CellKind, layers: int, bidirectional: bool) -> nn.RNNBase:
    """torch's own stacked network with the encoder's weights."""
    twin = NETWORKS[kind](D, H, num_layers=layers, bidirectional=bidirectional, batch_first=True).double()
    with torch.no_grad():
        for layer, ours in enumerate(encoder.layers):
            for direction, suffix in zip(ours.directions, ("", "_reverse"), strict=False):
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    getattr(twin, f"{name}_l{layer}{suffix}").copy_(getattr(direction.network, f"{name}_l0"))
    return twin


@pytest.mark.parametrize(("kind", "layers", "bidirectional"), list(product(KINDS, (1, 2), (False, True))))
def test_encoder_is_torchs_packed_network(kind: CellKind, layers: int, bidirectional: bool) -> None:
    encoder = RecurrentEncoder(
        kind=kind, inputs=D, size=H, layers=layers, bidirectional=bidirectional, residual=False, dropout=0.0
    )
    fill(encoder.double())
    inputs, mask = values(B, S, D), torch.arange(S) < LENGTHS.unsqueeze(1)
    memory = encoder(Sequence(inputs, mask))
    packed = pack_padded_sequence(inputs, LENGTHS, batch_first=True, enforce_sorted=False)
    outputs, last = torch_twin(encoder, kind, layers, bidirectional)(packed)
    states, _ = pad_packed_sequence(outputs, batch_first=True)
    directions = 2 if bidirectional else 1
    final = (last[0] if kind == "lstm" else last).reshape(layers, directions, B, H)
    close(memory.states[mask], states[mask])
    close(memory.final, final.permute(2, 0, 1, 3).reshape(B, layers, directions * H))
    assert encoder.size == directions * H


@pytest.mark.parametrize(("kind", "bidirectional"), list(product(KINDS, (False, True))))
def test_residuals_are_added_from_the_second_layer_on(kind: CellKind, bidirectional: bool) -> None:
    """h^2 = h^1 + network(h^1); the first layer has nothing of its size to add to."""
    parts = {"kind": kind, "inputs": D, "size": H, "bidirectional": bidirectional, "dropout": 0.0}
    encoder = RecurrentEncoder(**parts, layers=3, residual=True)
    fill(encoder.double(), scale=0.2)
    source = Sequence(values(B, S, D), torch.arange(S) < LENGTHS.unsqueeze(1))
    states, _ = encoder.layers[0](source.values, source.lengths)
    for layer in list(encoder.layers)[1:]:
        states = states + layer(states, source.lengths)[0]
    memory = encoder(source)
    close(memory.states, states)
    left = states[torch.arange(B), LENGTHS - 1, :H]  # read last from the left; from the right, the first
    close(memory.final[:, -1], torch.cat([left, states[:, 0, H:]], dim=-1))


def test_scaled_vectors_are_of_values_of_about_1() -> None:
    """√E x_j is read; without an encoder these are the states, and their mean over real positions is the last."""
    parts: dict[str, Any] = {"kind": "gru", "inputs": D, "size": H, "layers": 2, "bidirectional": True}
    plain, scaled = (RecurrentEncoder(**parts, residual=False, dropout=0.0, scale=on) for on in (False, True))
    fill(plain.double())
    fill(scaled.double())
    source = Sequence(values(B, S, D), torch.arange(S) < LENGTHS.unsqueeze(1))
    larger = Sequence(source.values * math.sqrt(D), source.mask)
    close(scaled(source).states, plain(larger).states)
    memory = NoEncoder(size=D, dropout=0.0)(source)
    close(memory.states, larger.values)
    for row, length in enumerate(LENGTHS):
        close(memory.final[row, 0], larger.values[row, :length].mean(0))


def test_rows_are_reversed_within_their_length() -> None:
    rows = torch.tensor([[1, 2, 3, 0], [4, 0, 0, 0], [5, 6, 7, 8]]).unsqueeze(-1)
    turned = reverse_padded(rows, torch.tensor([3, 1, 4])).squeeze(-1)
    assert turned.tolist() == [[3, 2, 1, 0], [4, 0, 0, 0], [8, 7, 6, 5]]


@pytest.mark.parametrize(("kind", "layers"), list(product(KINDS, (1, 2, 3))))
def test_stack_run_is_stack_step(kind: CellKind, layers: int) -> None:
    stack = RecurrentStack(cell=kind, inputs=D, size=H, layers=layers, dropout=0.0)
    fill(stack.double())
    inputs = values(B, S, D)
    state = first = tuple(0.3 * (part + 1) * values(B, layers, H) for part in range(stack.parts))
    tops = []
    for now in inputs.unbind(dim=1):
        top, state = stack.step(now, state)
        tops.append(top)
    outputs, last = stack.run(inputs, first)
    close(torch.stack(tops, dim=1), outputs)
    assert len(state) == len(last) == (2 if kind == "lstm" else 1)
    for stepped, ran in zip(state, last, strict=True):
        close(stepped, ran)


@pytest.mark.parametrize("kind", KINDS)
def test_first_weights_are_what_the_docstring_says(kind: CellKind) -> None:
    ours = recurrent_network(kind, D, H)
    torch.manual_seed(3)
    initialize_recurrent(ours)
    for gate in ours.weight_hh_l0.chunk(ours.weight_hh_l0.size(0) // H):
        torch.testing.assert_close(gate @ gate.T, torch.eye(H), atol=1e-5, rtol=0)
    assert bool((ours.weight_ih_l0.abs() <= (6 / (D + H)) ** 0.5).all())
    forget = torch.zeros_like(ours.bias_ih_l0)
    if kind == "lstm":
        forget[H : 2 * H] = 1.0
    assert torch.equal(ours.bias_ih_l0, forget)
    assert not ours.bias_hh_l0.any()
