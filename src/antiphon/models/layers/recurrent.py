"""The recurrent part of a decoder: stacked RNN, GRU or LSTM layers, run over many steps or stepped by hand."""
# R rows, T steps, D input, H state, L layers

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from antiphon.models.encoders.rnn import Kind, initialise_recurrent, network

__all__ = ["RecurrentStack"]

CELLS = {"gru": torch.gru_cell, "rnn": torch.rnn_tanh_cell, "rnn-relu": torch.rnn_relu_cell}


class RecurrentStack(nn.Module):
    """s_t = g(s_{t-1}, x_t) in each layer.

    A state is a tuple of tensors [R, L, H]: (s,) for RNN and GRU, (s, carry) for LSTM. `fused` is the network
    over all steps; `step` is the same with one cell a layer, quicker for a single step; `run` takes the one that is
    quicker. A test binds them.
    """

    def __init__(self, *, cell: Kind, inputs: int, size: int, layers: int, dropout: float) -> None:
        super().__init__()
        between = dropout if layers > 1 else 0.0
        self.network = network(cell, inputs, size, layers=layers, dropout=between)
        self.cell = cell
        self.size = size
        self.layers = layers
        initialise_recurrent(self.network)

    @property
    def parts(self) -> int:
        """How many tensors make a state."""
        return 2 if self.cell == "lstm" else 1

    def run(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Inputs [R, T, D] → top states [R, T, H] and the state after the last step."""
        if inputs.size(1) == 1 and not self.training:  # search: for a single row a fifth of the fused network's time
            top, after = self.step(inputs[:, 0], state)
            return top.unsqueeze(1), after
        return self.fused(inputs, state)

    def fused(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """`run` by one call of torch for all layers and steps."""
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
        """The state before anything was read."""
        weight = next(self.network.parameters())
        return tuple(weight.new_zeros(rows, self.layers, self.size) for _ in range(self.parts))

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Inputs [R, D] → top state [R, H] and the new state."""
        layers = []
        for number in range(self.layers):
            if number > 0:
                inputs = functional.dropout(inputs, self.network.dropout, self.training)
            parts = self._cell(number, inputs, tuple(part[:, number] for part in state))
            layers.append(parts)
            inputs = parts[0]
        return inputs, tuple(torch.stack(part, dim=1) for part in zip(*layers, strict=True))

    def _cell(self, number: int, inputs: Tensor, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        w_ih, w_hh, b_ih, b_hh = (getattr(self.network, f"{name}_l{number}") for name in names)
        if self.cell == "lstm":
            return tuple(torch.lstm_cell(inputs, list(parts), w_ih, w_hh, b_ih, b_hh))
        return (CELLS[self.cell](inputs, parts[0], w_ih, w_hh, b_ih, b_hh),)
