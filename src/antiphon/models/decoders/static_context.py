"""From the encoder's final states to the decoder's first."""
# B batch, S source steps, L layers, H encoder state
# B batch, L layers, H encoder state, D decoder state

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from antiphon.sequence import Memory

__all__ = ["POOLS", "Bridge", "DirectBridge", "StaticContext", "Told"]

# One context for the whole answer: a vector made of all the encoder's states.


def last(memory: Memory) -> Tensor:
    """c = h_n, of each layer"""
    return memory.final


def mean(memory: Memory) -> Tensor:
    """c = 1/n Σ_j h_j over the real positions"""
    real = memory.mask.unsqueeze(-1)
    return ((memory.states * real).sum(1) / real.sum(1)).unsqueeze(1)


def largest(memory: Memory) -> Tensor:
    """c = max_j h_j over the real positions, value by value"""
    return memory.states.masked_fill(~memory.mask.unsqueeze(-1), -torch.inf).amax(1).unsqueeze(1)


POOLS: dict[str, Callable[[Memory], Tensor]] = {"last": last, "mean": mean, "max": largest}


@dataclass(frozen=True)
class Told:
    """What a decoder is told: its first state, and what enters each step [B, C] (C = 0: nothing)."""

    layers: tuple[Tensor, ...]
    fed: Tensor


class StaticContext(nn.Module):
    """c = f(h_1..h_n); it sets the first state (with a bridge), enters every step (`every_step`), or both."""

    def __init__(self, *, pool: Callable[[Memory], Tensor], bridge: nn.Module | None, every_step: bool) -> None:
        super().__init__()
        self.pool = pool
        self.bridge = bridge
        self.every_step = every_step

    def forward(self, memory: Memory, zeros: tuple[Tensor, ...]) -> Told:
        """From the source, and the state of a decoder that was told nothing."""
        pooled = self.pool(memory)  # [B, L, H], or [B, 1, H] where layers do not matter
        heights = zeros[0].size(1)  # of more encoder layers than these, the topmost: no layer is computed for nothing
        layers = zeros if self.bridge is None else self.bridge(pooled[:, -heights:])
        fed = pooled[:, -1] if self.every_step else pooled.new_zeros(pooled.size(0), 0)
        return Told(layers, fed)


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
