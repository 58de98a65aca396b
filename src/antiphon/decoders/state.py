"""What a decoder hands out: a step's result, and the state as a value."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, V vocabulary, L layers, H state

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from antiphon.attention.context import SourceSide
from antiphon.sequence import Memory

__all__ = ["Decoder", "RecurrentState", "Step"]


@dataclass(frozen=True)
class RecurrentState:
    """Where a recurrent decoder stands. The rows of one sentence lie side by side and share its source."""

    layers: tuple[Tensor, ...]  # each [R, L, H]: the states, and an LSTM's carry
    attended: Tensor  # [R, O]: the last attended state, for input feeding; [R, 0] without
    source: SourceSide

    def select(self, rows: Tensor) -> RecurrentState:
        """Rows [B', k]: for each sentence that stays, the rows its k hypotheses go on from."""
        hypotheses = self.attended.size(0) // self.source.mask.size(0)
        sentences = rows[:, 0] // hypotheses
        unchanged = sentences.numel() == self.source.mask.size(0)  # sentences only ever leave, in order
        flat = rows.reshape(-1)
        return RecurrentState(
            layers=tuple(part[flat] for part in self.layers),
            attended=self.attended[flat],
            source=self.source if unchanged else self.source.select(sentences),
        )


@dataclass(frozen=True)
class Step:
    """The result of one or more decoder steps."""

    logits: Tensor  # [R, T, V]
    state: RecurrentState
    weights: Tensor  # [R, T, S]


class Decoder(nn.Module, ABC):
    """start(memory) → state; forward(tokens, state) → Step.

    Teacher forcing is `forward` on the whole target, searching is `forward` on one token, a forced prefix is
    `forward` on a few: the three agree.
    """

    @abstractmethod
    def start(self, memory: Memory) -> RecurrentState: ...

    @abstractmethod
    def forward(self, tokens: Tensor, state: RecurrentState) -> Step: ...
