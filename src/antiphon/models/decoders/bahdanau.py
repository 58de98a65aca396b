"""The Bahdanau decoder: look first, with s_{i-1}; then step, with the context."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, V vocabulary, E embedding, H state, C context

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.models.attention import Attended, AttentionContext
from antiphon.models.decoders.copying import Copying, mixed
from antiphon.models.decoders.decoder import Decoder, OutputLayer, RecurrentState, Step
from antiphon.models.decoders.static_context import Bridge
from antiphon.models.layers.embedding import TokenEmbedding
from antiphon.models.layers.recurrent import RecurrentStack
from antiphon.sequence import Memory

__all__ = ["BahdanauDecoder"]


class BahdanauDecoder(Decoder[RecurrentState]):
    """c_i = Σ_j α_ij h_j with α from s_{i-1};  s_i = g(s_{i-1}, [y_{i-1}; c_i]);  o_i = tanh(W [s_i; c_i; y_{i-1}])"""

    def __init__(
        self,
        *,
        embedding: TokenEmbedding,
        stack: RecurrentStack,
        context: AttentionContext,
        bridge: Bridge,
        dropout: float,
        copying: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.context = context
        self.bridge = bridge
        seen = stack.size + context.size + embedding.size
        self.combine = nn.Linear(seen, stack.size)
        self.dropout = nn.Dropout(dropout)
        self.output = OutputLayer(stack.size, embedding.tokens)
        self.copying = Copying(query=seen) if copying else None

    def start(self, memory: Memory) -> RecurrentState:
        layers = self.bridge(memory.final)
        return RecurrentState(
            layers, attended=layers[0].new_empty(layers[0].size(0), 0), source=self.context.prepare(memory)
        )

    def forward(self, tokens: Tensor, state: RecurrentState) -> Step[RecurrentState]:
        words = self.embedding(tokens)  # [R, T, E]
        layers, tops, looks = state.layers, [], []
        for word in words.unbind(dim=1):
            look = self.context(layers[0][:, -1:], state.source)  # the query is the top state s_{i-1}
            looks.append(look)
            top, layers = self.stack.step(torch.cat([word, look.context.squeeze(1)], dim=-1), layers)
            tops.append(top)
        looked = Attended.joined(looks)
        seen = torch.cat([torch.stack(tops, dim=1), looked.context, words], dim=-1)
        outputs = torch.tanh(self.combine(seen))  # [R, T, H]
        own = self.output(self.dropout(outputs))
        logits, copied = mixed(self.copying, own, (seen,), looked.weights, state.source.copies)
        return Step(
            logits=logits,
            state=RecurrentState(layers, state.attended, state.source),
            weights=looked.weights,
            drawn=looked.drawn,
            copied=copied,
        )
