"""Recurrent encoders: simple RNN, GRU and LSTM; stacked; in both directions."""
# B batch, S source steps, D input, H state of one direction, L layers

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from antiphon.models.encoders.encoder import Encoder
from antiphon.sequence import Memory, Sequence

__all__ = ["Direction", "Kind", "RecurrentEncoder", "initialise_recurrent", "network", "reverse_within"]

Kind = Literal["lstm", "gru", "rnn", "rnn-relu"]
Network = nn.RNN | nn.GRU | nn.LSTM


def network(kind: Kind, inputs: int, size: int, *, layers: int = 1, dropout: float = 0.0) -> Network:
    """torch's network of this kind: h_t = g(U h_{t-1} + W x_t), with g = tanh or ReLU, or gated (GRU, LSTM)."""
    if kind == "lstm":
        return nn.LSTM(inputs, size, num_layers=layers, batch_first=True, dropout=dropout)
    if kind == "gru":
        return nn.GRU(inputs, size, num_layers=layers, batch_first=True, dropout=dropout)
    g: Literal["tanh", "relu"] = "relu" if kind == "rnn-relu" else "tanh"
    return nn.RNN(inputs, size, num_layers=layers, batch_first=True, dropout=dropout, nonlinearity=g)


def reverse_within(values: Tensor, lengths: Tensor) -> Tensor:
    """Each row of [B, S, D] reversed within its own length; padding stays at the end."""
    positions = torch.arange(values.size(1), device=values.device)
    index = (lengths.unsqueeze(1) - 1 - positions) % values.size(1)
    return values.gather(1, index.unsqueeze(-1).expand_as(values))


class Direction(nn.Module):
    """h_t = g(h_{t-1}, x_t), read from the left, or from the right when `backward`.

    Reading from the right is reading the reversed row from the left. So padding always comes last and
    cannot reach a real state, without packing (which is slower on a CPU: no fused kernels).
    """

    def __init__(self, *, kind: Kind, inputs: int, size: int, backward: bool) -> None:
        super().__init__()
        self.network = network(kind, inputs, size)
        self.backward = backward
        initialise_recurrent(self.network)

    def forward(self, values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """States [B, S, H] in the order of the input, and the state after the last one read [B, H]."""
        if self.backward:
            values = reverse_within(values, lengths)
        states, _ = self.network(values)
        last = (lengths - 1).view(-1, 1, 1).expand(-1, 1, states.size(2))
        final = states.gather(1, last).squeeze(1)
        if self.backward:
            states = reverse_within(states, lengths)
        return states, final


class RecurrentLayer(nn.Module):
    """One direction, or both with their states concatenated: [left; right]"""

    def __init__(self, *, kind: Kind, inputs: int, size: int, bidirectional: bool) -> None:
        super().__init__()
        self.directions = nn.ModuleList(
            Direction(kind=kind, inputs=inputs, size=size, backward=backward)
            for backward in ((False, True) if bidirectional else (False,))
        )

    def forward(self, values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        read = [direction(values, lengths) for direction in self.directions]
        return torch.cat([states for states, _ in read], dim=-1), torch.cat([final for _, final in read], dim=-1)


class RecurrentEncoder(Encoder):
    """Recurrent layers stacked on one another, with dropout between them; with residuals h + layer(h).

    With `scale` the first reads √E x_j: vectors of about length 1 become values of about 1.
    """

    def __init__(
        self,
        *,
        kind: Kind,
        inputs: int,
        size: int,
        layers: int,
        bidirectional: bool,
        residual: bool,
        dropout: float,
        scale: bool = False,
    ) -> None:
        super().__init__()
        self.factor = inputs**0.5 if scale else 1.0
        directions = 2 if bidirectional else 1
        self.layers = nn.ModuleList(
            RecurrentLayer(
                kind=kind, inputs=inputs if layer == 0 else size * directions, size=size, bidirectional=bidirectional
            )
            for layer in range(layers)
        )
        self.dropout = nn.Dropout(dropout)
        self.residual = residual
        self.size = size * directions

    def forward(self, source: Sequence) -> Memory:
        values, lengths = source.values * self.factor, source.lengths
        finals: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            states, final = layer(self.dropout(values) if number > 0 else values, lengths)  # [B, S, H], [B, H]
            added = self.residual and number > 0
            values = values + states if added else states
            finals.append(finals[-1] + final if added else final)
        return Memory(states=values, mask=source.mask, final=torch.stack(finals, dim=1))


def initialise_recurrent(network: Network) -> None:
    """Orthogonal recurrent weights, Xavier input weights, no bias but 1 for an LSTM's forget gate."""
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
