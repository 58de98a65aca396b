"""The decoder without attention: it gets one static context, or none (a language model)."""
# B sentences, R = B x hypotheses rows, T steps, V vocabulary, L layers, E embedding, D state, C context

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.models.decoders.decoder import Hidden, OutputLayer, PrefixDecoder
from antiphon.models.decoders.static_context import StaticContext
from antiphon.models.layers.dropout import Dropout
from antiphon.models.layers.embedding import TokenEmbedding
from antiphon.models.layers.recurrent import RecurrentStack
from antiphon.sequence import Memory, Sequence

__all__ = ["PlainDecoder", "PlainState"]


@dataclass(frozen=True)
class PlainState:
    """The recurrent state, and the context that enters every step."""

    layers: tuple[Tensor, ...]  # each [R, L, D]
    context: Tensor  # [R, C]; C = 0: none

    def select(self, rows: Tensor) -> PlainState:
        flat = rows.reshape(-1)
        return PlainState(tuple(part[flat] for part in self.layers), self.context[flat])

    def detach(self) -> PlainState:
        return PlainState(tuple(part.detach() for part in self.layers), self.context.detach())

    def tensors(self) -> dict[str, Tensor]:
        return {"fed": self.context, **{f"layer.{number}": part for number, part in enumerate(self.layers)}}

    @classmethod
    def of(cls, tensors: dict[str, Tensor]) -> PlainState:
        """The inverse of `tensors`."""
        return cls(tuple(tensors[f"layer.{number}"] for number in range(len(tensors) - 1)), tensors["fed"])


class PlainDecoder(PrefixDecoder[PlainState]):
    """s_i = g(s_{i-1}, [y_{i-1}; c]);  p(y_i) = softmax(W s_i)

    The context c sets s_0, enters every step, or both. Without c in the steps s_i = g(s_{i-1}, y_{i-1}). Without any
    context s_0 = 0: a language model.
    """

    def __init__(
        self, *, embedding: TokenEmbedding, stack: RecurrentStack, context: StaticContext | None, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.context = context
        self.dropout = Dropout(dropout)
        self.output = OutputLayer(stack.size, embedding.tokens)
        self.copying = None

    def start(self, memory: Memory) -> PlainState:
        zeros = self.stack.zeros(memory.mask.size(0))
        if self.context is None:
            return PlainState(zeros, context=zeros[0].new_zeros(memory.mask.size(0), 0))
        return PlainState(*self.context(memory, zeros))

    def advance(self, tokens: Tensor, state: PlainState) -> Hidden[PlainState]:
        words = self.embedding(tokens)  # [R, T, E]
        context = state.context.unsqueeze(1).expand(-1, words.size(1), -1)
        tops, layers = self.stack.run(torch.cat([words, context], dim=-1), state.layers)
        return Hidden(self.dropout(tops), PlainState(layers, state.context))

    def read_prefix(self, source: Sequence, state: PlainState) -> PlainState:
        return PlainState(self.stack.run_to_end(source.values, source.lengths, state.layers), state.context)
