"""The output layer of a tagger: a label for each state of the encoder."""
# B sentences, R = B x hypotheses rows, T labels, S source steps, V labels, H encoder state

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.data.tokenizers import EOS
from antiphon.models.decoders.decoder import Decoder, OutputLayer, Step
from antiphon.models.layers.dropout import Dropout
from antiphon.sequence import Memory

__all__ = ["LabelDecoder", "LabelState"]


@dataclass(frozen=True)
class LabelState:
    """The logits of all positions, and the position that is labelled next."""

    logits: Tensor  # [R, S, V]
    position: Tensor  # [R]

    def select(self, rows: Tensor) -> LabelState:
        """Rows [B', k]: the rows that the hypotheses continue."""
        flat = rows.reshape(-1)
        return LabelState(self.logits[flat], self.position[flat])


class LabelDecoder(Decoder[LabelState]):
    """p(y_t | x) = softmax(W h_t + b) over the labels; after the last one </s> is certain

    A step looks at no earlier label, so all logits are computed at the start, and a beam finds exactly the most
    probable sequences. The state of the source's </s> says nothing but where the answer ends.
    """

    def __init__(self, *, memory: int, labels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = OutputLayer(memory, labels)

    def start(self, memory: Memory) -> LabelState:
        logits = self.output(self.dropout(memory.states))  # [B, S, V]
        steps, labels = (torch.arange(size, device=logits.device) for size in logits.shape[1:])
        over = (steps >= memory.mask.sum(1, keepdim=True) - 1).unsqueeze(-1)  # [B, S, 1]
        logits = logits.masked_fill(over, 0.0).masked_fill(over != (labels == EOS), -torch.inf)
        return LabelState(logits, steps.new_zeros(logits.size(0)))

    def forward(self, tokens: Tensor, state: LabelState) -> Step[LabelState]:
        T, S = tokens.size(1), state.logits.size(1)
        places = state.position.unsqueeze(1) + torch.arange(T, device=tokens.device)  # [R, T]
        rows = torch.arange(tokens.size(0), device=tokens.device).unsqueeze(1)
        logits = state.logits[rows, places.clamp(max=S - 1)]
        return Step(logits, LabelState(state.logits, state.position + T))
