"""Recurrent networks for encoders and decoders: RNN, GRU and LSTM, run over many steps or step by step."""
# B batch, S source steps, R rows, T steps, D input, H state, L layers

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from antiphon.models.layers.dropout import dropout

__all__ = ["CellKind", "RecurrentStack", "initialize_recurrent", "recurrent_network", "reverse_padded"]

CellKind = Literal["lstm", "gru", "rnn", "rnn-relu"]
Network = nn.RNN | nn.GRU | nn.LSTM
CELL_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
CELLS = {"gru": torch.gru_cell, "rnn": torch.rnn_tanh_cell, "rnn-relu": torch.rnn_relu_cell}


def recurrent_network(kind: CellKind, inputs: int, size: int, *, layers: int = 1, dropout: float = 0.0) -> Network:
    """torch's module of this kind: h_t = g(U h_{t-1} + W x_t), with g = tanh or ReLU, or gated (GRU, LSTM)."""
    if kind == "lstm":
        return nn.LSTM(inputs, size, num_layers=layers, batch_first=True, dropout=dropout)
    if kind == "gru":
        return nn.GRU(inputs, size, num_layers=layers, batch_first=True, dropout=dropout)
    g: Literal["tanh", "relu"] = "relu" if kind == "rnn-relu" else "tanh"
    return nn.RNN(inputs, size, num_layers=layers, batch_first=True, dropout=dropout, nonlinearity=g)


def reverse_padded(values: Tensor, lengths: Tensor) -> Tensor:
    """Each row of [B, S, D] reversed within its own length; padding stays at the end."""
    positions = torch.arange(values.size(1), device=values.device)
    index = (lengths.unsqueeze(1) - 1 - positions) % values.size(1)
    return values.gather(1, index.unsqueeze(-1).expand_as(values))


def initialize_recurrent(network: Network) -> None:
    """Orthogonal recurrent weights, Xavier input weights, biases 0 except 1 for the forget gate of an LSTM."""
    for name, parameter in network.named_parameters():
        if name.startswith("weight_hh"):
            for gate in parameter.data.chunk(parameter.size(0) // network.hidden_size):
                nn.init.orthogonal_(gate)
        elif name.startswith("weight_ih"):
            for gate in parameter.data.chunk(parameter.size(0) // network.hidden_size):
                nn.init.xavier_uniform_(gate)
        else:
            nn.init.zeros_(parameter)
            if isinstance(network, nn.LSTM) and name.startswith("bias_ih"):
                parameter.data[network.hidden_size : 2 * network.hidden_size] = 1.0


class RecurrentStack(nn.Module):
    """s_t = g(s_{t-1}, x_t) in each layer

    A state is a tuple of tensors [R, L, H]: (s,) for RNN and GRU, (s, cell) for LSTM. `fused` runs torch's network over
    all steps; `step` computes one step with one cell per layer; `run` chooses the faster. A test binds them.
    """

    def __init__(self, *, cell: CellKind, inputs: int, size: int, layers: int, dropout: float) -> None:
        super().__init__()
        between = dropout if layers > 1 else 0.0
        self.network = recurrent_network(cell, inputs, size, layers=layers, dropout=between)
        self.cell = cell
        self.size = size
        self.layers = layers
        initialize_recurrent(self.network)

    @property
    def parts(self) -> int:
        """The number of tensors of a state."""
        return 2 if self.cell == "lstm" else 1

    def run(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Inputs [R, T, D] → top states [R, T, H] and the state after the last step."""
        if inputs.size(1) == 1 and not self.training:  # search: a fifth of the fused time for a single row
            top, after = self.step(inputs[:, 0], state)
            return top.unsqueeze(1), after
        return self.fused(inputs, state)

    def fused(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """`run` by one call for all layers and steps."""
        first = tuple(part.transpose(0, 1).contiguous() for part in state)  # torch wants [L, R, H]
        outputs, last = self.network(inputs, first if self.cell == "lstm" else first[0])
        ends = last if self.cell == "lstm" else (last,)
        return outputs, tuple(part.transpose(0, 1) for part in ends)

    def run_to_end(self, inputs: Tensor, lengths: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Rows of unequal length [R, T, D] → the state after the last real step of each."""
        first = tuple(part.transpose(0, 1).contiguous() for part in state)
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, last = self.network(packed, first if self.cell == "lstm" else first[0])
        return tuple(part.transpose(0, 1) for part in (last if self.cell == "lstm" else (last,)))

    def zeros(self, rows: int) -> tuple[Tensor, ...]:
        """The initial state of 0."""
        weight = next(self.network.parameters())
        return tuple(weight.new_zeros(rows, self.layers, self.size) for _ in range(self.parts))

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Inputs [R, D] → top state [R, H] and the new state."""
        layers = []
        for number in range(self.layers):
            if number > 0:
                inputs = dropout(inputs, self.network.dropout, self.training)
            parts = self._cell(number, inputs, tuple(part[:, number] for part in state))
            layers.append(parts)
            inputs = parts[0]
        return inputs, tuple(torch.stack(part, dim=1) for part in zip(*layers, strict=True))

    def _cell(self, number: int, inputs: Tensor, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        w_ih, w_hh, b_ih, b_hh = self.cell_weights(number)
        if self.cell == "lstm":
            return tuple(torch.lstm_cell(inputs, list(parts), w_ih, w_hh, b_ih, b_hh))
        return (CELLS[self.cell](inputs, parts[0], w_ih, w_hh, b_ih, b_hh),)

    def cell_weights(self, number: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W, U and their biases in a layer."""
        network = self.network
        w_ih, w_hh, b_ih, b_hh = (getattr(network, f"{name}_l{number}") for name in CELL_WEIGHTS)
        return w_ih, w_hh, b_ih, b_hh
