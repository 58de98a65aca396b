"""From the encoder's final states to the decoder's first."""
# B batch, L layers, H encoder state, D decoder state

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.sequence import Memory

__all__ = ["Bridge"]


class Bridge(nn.Module):
    """s_0 = tanh(W h_n): one dense layer for each decoder layer, from the encoder layer of the same height.

    A decoder with more layers than the encoder uses the encoder's top layer for the rest. An LSTM's carry
    gets a dense layer of its own.
    """

    def __init__(self, *, memory: int, size: int, layers: int, parts: int) -> None:
        super().__init__()
        self.dense = nn.ModuleList(nn.ModuleList(nn.Linear(memory, size) for _ in range(layers)) for _ in range(parts))

    def forward(self, memory: Memory) -> tuple[Tensor, ...]:
        """A tensor [B, L, D] for each part of the decoder's state."""
        return tuple(self._first(part, memory.final) for part in self.dense if isinstance(part, nn.ModuleList))

    @staticmethod
    def _first(layers: nn.ModuleList, final: Tensor) -> Tensor:
        top = final.size(1) - 1
        return torch.stack([torch.tanh(dense(final[:, min(i, top)])) for i, dense in enumerate(layers)], dim=1)
