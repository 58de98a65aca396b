"""The convolutional encoder: each layer reads a window of the layer below, so the receptive field grows."""
# B batch, S source steps, E embedding, H state, K kernel, L layers

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional

from antiphon.models.encoders.encoder import Encoder
from antiphon.models.layers.dropout import Dropout
from antiphon.models.layers.positions import Positions
from antiphon.sequence import Memory, Sequence

__all__ = ["ConvolutionalEncoder", "GatedConvolution"]


class GatedConvolution(nn.Module):
    """√½ (x + a ⊙ σ(b)) with [a; b] = W * x + bias: a gated linear unit with a residual connection

    √½ keeps the variance of the sum. Padding is set to 0 before the convolution, as beyond the ends of a sentence.
    """

    def __init__(self, *, size: int, kernel: int, dropout: float) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"a kernel of {kernel} has no middle")
        self.convolution = nn.Conv1d(size, 2 * size, kernel, padding=kernel // 2)
        self.dropout = Dropout(dropout)
        # A larger variance makes up for the gate and for dropout (Gehring et al. 2017).
        nn.init.normal_(self.convolution.weight, std=(4 * (1 - dropout) / (kernel * size)) ** 0.5)
        assert self.convolution.bias is not None
        nn.init.zeros_(self.convolution.bias)

    def forward(self, states: Tensor, padding: Tensor) -> Tensor:
        """States [B, H, S], padding [B, 1, S]."""
        masked = self.dropout(states).masked_fill(padding, 0.0)
        gated: Tensor = functional.glu(self.convolution(masked), dim=1)
        return (states + gated) * math.sqrt(0.5)


class ConvolutionalEncoder(Encoder):
    """h = the last of L gated convolutions over x √d + p; a state sees L (K - 1) + 1 positions"""

    def __init__(
        self, *, inputs: int, size: int, layers: int, kernel: int, positions: Positions, dropout: float
    ) -> None:
        super().__init__()
        self.size = size
        self.widen = nn.Linear(inputs, size) if inputs != size else nn.Identity()
        self.positions = positions
        self.blocks = nn.ModuleList(GatedConvolution(size=size, kernel=kernel, dropout=dropout) for _ in range(layers))
        if isinstance(self.widen, nn.Linear):
            nn.init.xavier_uniform_(self.widen.weight)
            nn.init.zeros_(self.widen.bias)

    def forward(self, source: Sequence) -> Memory:
        states = self.positions(self.widen(source.values)).transpose(1, 2)  # [B, H, S]
        for block in self.blocks:
            states = block(states, ~source.mask.unsqueeze(1))
        states = states.transpose(1, 2)
        return Memory(states, source.mask, final=Sequence(states, source.mask).last.unsqueeze(1))
