"""The last layer of a decoder."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, V vocabulary, L layers, N heads, H state
# R rows, T steps, V vocabulary, H state

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from antiphon.models.attention import Drawn, SourceSide
from antiphon.models.decoders.copying import Copied
from antiphon.sequence import Memory, Sequence, State

__all__ = ["Decoder", "Looks", "OutputLayer", "Reader", "RecurrentState", "Step"]

# What a decoder hands out: a step's result, and the state as a value.

S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class RecurrentState:
    """Where a recurrent decoder stands. The rows of one sentence lie side by side and share its source."""

    layers: tuple[Tensor, ...]  # each [R, L, H]: the states, and an LSTM's carry
    attended: Tensor  # [R, O]: the last attended state, for input feeding; [R, 0] without
    source: SourceSide

    def select(self, rows: Tensor) -> RecurrentState:
        """Rows [B', k]: for each sentence that stays, the rows its k hypotheses go on from."""
        flat = rows.reshape(-1)
        return RecurrentState(
            layers=tuple(part[flat] for part in self.layers),
            attended=self.attended[flat],
            source=self.source.of_hypotheses(rows, self.attended.size(0)),
        )


@dataclass(frozen=True)
class Step(Generic[S]):
    """The result of one or more decoder steps."""

    logits: Tensor  # [R, T, V]
    state: S
    weights: Tensor | None = None  # [R, T, S], where they cost nothing; `look` has them always
    drawn: Drawn | None = None  # hard attention in training: what was drawn
    copied: Copied | None = None  # how much was copied from where; the logits are then log p of the mixture


@dataclass(frozen=True)
class Looks:
    """Where a model looked, for every layer and head; None where it has no such attention."""

    cross: Tensor | None = None  # the decoder to the source [R, L, N, T, S]
    own: Tensor | None = None  # the decoder to its own past, the steps of the state before it first [R, L, N, T, P + T]
    source: Tensor | None = None  # the encoder to itself [B, L, N, S, S]


class Decoder(nn.Module, ABC, Generic[S]):
    """start(memory) → state; forward(tokens, state) → Step.

    Teacher forcing is `forward` on the whole target, searching is `forward` on one token, a forced prefix is
    `forward` on a few: the three agree.
    """

    output: nn.Linear  # from a state to logits

    @abstractmethod
    def start(self, memory: Memory) -> S: ...

    @abstractmethod
    def forward(self, tokens: Tensor, state: S) -> Step[S]: ...

    def look(self, tokens: Tensor, state: S) -> Looks:
        """Where `forward` would look; slower, and with every head."""
        weights = self(tokens, state).weights
        return Looks(cross=None if weights is None else weights[:, None, None])


class Reader(Decoder[S]):
    """A decoder that can also read vectors, so that one network reads the source and writes the target."""

    @abstractmethod
    def read(self, source: Sequence, state: S) -> S:
        """The state after the real positions of source vectors [B, S, E]."""


BLOCK = 1024  # tokens; their weights stay in a core's cache while all rows pass


class OutputLayer(nn.Linear):
    """logits = W s + b

    Without gradients a wide layer is computed block by block of tokens, a fifth less time; a test binds them.
    """

    def forward(self, input: Tensor) -> Tensor:
        narrow = self.out_features < 2 * BLOCK or input.size(1) > 1
        if narrow or torch.is_grad_enabled() or torch.onnx.is_in_onnx_export():
            return super().forward(input)
        rows = input.flatten(0, -2)  # [R, H]
        logits = rows.new_empty(rows.size(0), self.out_features)
        for first in range(0, self.out_features, BLOCK):
            some = slice(first, first + BLOCK)
            torch.addmm(self.bias[some], rows, self.weight[some].t(), out=logits[:, some])
        return logits.view(*input.shape[:-1], -1)
