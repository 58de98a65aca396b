"""From the encoder's final states to the decoder's first."""
# B batch, L layers, H encoder state, D decoder state

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Bridge", "DirectBridge"]


class Bridge(nn.Module):
    """s_0 = tanh(W h_n): one dense layer for each decoder layer, from the encoder layer of the same height.

    Height is counted among the layers it is given: an attending decoder gives all, a static context the topmost. A
    decoder with more layers than these uses the top one for the rest. An LSTM's carry gets a dense layer of its own.
    """

    def __init__(self, *, memory: int, size: int, layers: int, parts: int) -> None:
        super().__init__()
        self.dense = nn.ModuleList(nn.ModuleList(nn.Linear(memory, size) for _ in range(layers)) for _ in range(parts))

    def forward(self, final: Tensor) -> tuple[Tensor, ...]:
        """Final states [B, L, H] → a tensor [B, L', D] for each part of the decoder's state."""
        return tuple(self._first(part, final) for part in self.dense if isinstance(part, nn.ModuleList))

    @staticmethod
    def _first(layers: nn.ModuleList, final: Tensor) -> Tensor:
        return torch.stack([torch.tanh(dense(_height(final, i))) for i, dense in enumerate(layers)], dim=1)


class DirectBridge(nn.Module):
    """s_0 = h_n: the encoder's final state itself, of the same height; an LSTM's carry begins at 0."""

    def __init__(self, *, memory: int, size: int, layers: int, parts: int) -> None:
        super().__init__()
        if memory != size:
            raise ValueError(f"a state can only be handed over to one of equal size, not {memory} to {size}")
        self.layers = layers
        self.parts = parts

    def forward(self, final: Tensor) -> tuple[Tensor, ...]:
        first = torch.stack([_height(final, i) for i in range(self.layers)], dim=1)
        return (first, *(torch.zeros_like(first) for _ in range(self.parts - 1)))


def _height(final: Tensor, layer: int) -> Tensor:
    """The final state of the encoder layer of this height, or of its top."""
    return final[:, min(layer, final.size(1) - 1)]
