"""The parts of a network that a tracer cannot follow as they are, said again with tensors alone."""
# R rows, T steps, S source steps, N heads, d size

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor

from antiphon.attention.multihead import MultiHeadAttention, Seen
from antiphon.decoders.stack import RecurrentStack
from antiphon.encoders.positions import LearntPositions, Positions, SinusoidalPositions
from antiphon.model import SequenceModel

__all__ = ["ShownAttention", "traceable"]


class TracedPositions(Positions):
    """As in any network; how long a sequence may be is asked before anything is computed (decoding/limits.py)."""

    def forward(self, tokens: Tensor, offset: int | Tensor = 0, real: Tensor | None = None) -> Tensor:  # noqa: ARG002
        if isinstance(offset, Tensor) and offset.dim() > 0:  # to a tracer, every size is a tensor
            offset = offset.unsqueeze(1)
        places = torch.arange(tokens.size(1)) + offset  # [T] or [R, T]
        if self.longest is not None:
            places = places.clamp(max=self.longest - 1)  # padding may stand beyond the end of a table
        return torch.add(self.at(places, 0, tokens), tokens, alpha=self.factor)


class TracedSines(TracedPositions, SinusoidalPositions):
    """sin and cos of each position: no table, so any length will do."""

    def at(self, places: Tensor, end: int, like: Tensor) -> Tensor:  # noqa: ARG002
        rates = 10000 ** (torch.arange(0, self.size, 2, dtype=torch.float64) / self.size)
        angles = places.to(torch.float64).unsqueeze(-1) / rates
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(like.dtype)


class TracedTable(TracedPositions, LearntPositions):
    """p[t] = P[t]"""

    def at(self, places: Tensor, end: int, like: Tensor) -> Tensor:  # noqa: ARG002
        learnt: Tensor = self.table(places)
        return learnt


class TracedStack(RecurrentStack):
    """Always fused, even for one step: ONNX has whole networks (LSTM, GRU, RNN) and no cells."""

    def run(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        return self.fused(inputs, state)

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        tops, after = self.fused(inputs.unsqueeze(1), state)
        return tops.squeeze(1), after


class ShownAttention(MultiHeadAttention):
    """Attention by the formula, because ONNX has no fused one. So its weights are there; they are kept to be shown."""

    shown: Tensor  # [R, N, T, S], of the last call

    def forward(self, queries: Tensor, *sides: Seen, causal: bool = False) -> Tensor:  # noqa: ARG002 (the mask says it)
        return self._apart(queries, *sides)

    def weights(self, queries: Tensor, *sides: Seen) -> Tensor:
        self.shown = super().weights(queries, *sides)
        return self.shown


TRACED: dict[type, type] = {
    SinusoidalPositions: TracedSines,
    LearntPositions: TracedTable,
    RecurrentStack: TracedStack,
    MultiHeadAttention: ShownAttention,
}


def traceable(model: SequenceModel) -> SequenceModel:
    """A copy that computes the same and can be traced."""
    copy = deepcopy(model).eval().requires_grad_(False)
    for module in copy.modules():
        if type(module) in TRACED:
            module.__class__ = TRACED[type(module)]  # the same weights under another formula
    return copy
