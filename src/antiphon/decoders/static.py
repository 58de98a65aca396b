"""One context for the whole answer: a vector made of all the encoder's states."""
# B batch, S source steps, L layers, H encoder state

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from antiphon.sequence import Memory

__all__ = ["POOLS", "StaticContext", "Told"]


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
