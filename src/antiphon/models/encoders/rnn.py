"""Recurrent encoders: simple RNN, GRU and LSTM; stacked; bidirectional."""
# B batch, S source steps, D input, H state of one direction, L layers

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.models.encoders.encoder import Encoder
from antiphon.models.layers.dropout import Dropout
from antiphon.models.layers.recurrent import CellKind, initialize_recurrent, recurrent_network, reverse_padded
from antiphon.sequence import Memory, Sequence

__all__ = ["Direction", "RecurrentEncoder", "RecurrentLayer"]


class Direction(nn.Module):
    """h_t = g(h_{t-1}, x_t), from the left, or `backward` from the right; a simple RNN: h_t = g(U h_{t-1} + W x_t)

    The backward direction reads the reversed row. So padding always comes last and cannot reach a real state, without
    packing (which is slower on a CPU: no fused kernels).
    """

    def __init__(self, *, kind: CellKind, inputs: int, size: int, backward: bool) -> None:
        super().__init__()
        self.network = recurrent_network(kind, inputs, size)
        self.backward = backward
        initialize_recurrent(self.network)

    def forward(self, values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Values [B, S, D] → states [B, S, H] in the order of the input, and the final state [B, H]."""
        if self.backward:
            values = reverse_padded(values, lengths)
        states, _ = self.network(values)
        last = (lengths - 1).view(-1, 1, 1).expand(-1, 1, states.size(2))
        final = states.gather(1, last).squeeze(1)
        if self.backward:
            states = reverse_padded(states, lengths)
        return states, final


class RecurrentLayer(nn.Module):
    """One direction, or both with their states concatenated: [left; right]"""

    def __init__(self, *, kind: CellKind, inputs: int, size: int, bidirectional: bool) -> None:
        super().__init__()
        self.directions = nn.ModuleList(
            Direction(kind=kind, inputs=inputs, size=size, backward=backward)
            for backward in ((False, True) if bidirectional else (False,))
        )

    def forward(self, values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        both = [direction(values, lengths) for direction in self.directions]
        return torch.cat([states for states, _ in both], dim=-1), torch.cat([final for _, final in both], dim=-1)


class RecurrentEncoder(Encoder):
    """Stacked recurrent layers with dropout between them; from the second layer on, with residuals h + layer(h)

    With `scale` the first layer reads √E x_j: vectors of length about 1 become values of about 1.
    """

    def __init__(
        self,
        *,
        kind: CellKind,
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
        self.size = size * (2 if bidirectional else 1)
        self.layers = nn.ModuleList(
            RecurrentLayer(
                kind=kind, inputs=inputs if layer == 0 else self.size, size=size, bidirectional=bidirectional
            )
            for layer in range(layers)
        )
        self.dropout = Dropout(dropout)
        self.residual = residual

    def forward(self, source: Sequence) -> Memory:
        values, lengths = source.values * self.factor, source.lengths
        finals: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            states, final = layer(self.dropout(values) if number > 0 else values, lengths)  # [B, S, H], [B, H]
            residual = self.residual and number > 0
            values = values + states if residual else states
            finals.append(finals[-1] + final if residual else final)
        return Memory(states=values, mask=source.mask, final=torch.stack(finals, dim=1))
