"""The Bahdanau decoder: attend with s_{i-1} first, then step with the context."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, V vocabulary, E embedding, D state, C context

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.models.attention import Attended, AttentionContext
from antiphon.models.decoders.copying import CopyMechanism
from antiphon.models.decoders.decoder import Bridge, Decoder, OutputLayer, RecurrentState, Step
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
        features = stack.size + context.size + embedding.size
        self.combine = nn.Linear(features, stack.size)
        self.dropout = nn.Dropout(dropout)
        self.output = OutputLayer(stack.size, embedding.tokens)
        self.copying = CopyMechanism(query=features) if copying else None

    def start(self, memory: Memory) -> RecurrentState:
        layers = self.bridge(memory.final)
        attended = layers[0].new_empty(layers[0].size(0), 0)
        return RecurrentState(layers, attended, source=self.context.prepare(memory))

    def forward(self, tokens: Tensor, state: RecurrentState) -> Step[RecurrentState]:
        words = self.embedding(tokens)  # [R, T, E]
        layers, tops, steps = state.layers, [], []
        for word in words.unbind(dim=1):
            step: Attended = self.context(layers[0][:, -1:], state.source)  # the query is the top state s_{i-1}
            top, layers = self.stack.step(torch.cat([word, step.context.squeeze(1)], dim=-1), layers)
            steps.append(step)
            tops.append(top)
        attended = Attended.concat(steps)
        features = torch.cat([torch.stack(tops, dim=1), attended.context, words], dim=-1)
        outputs = torch.tanh(self.combine(features))  # [R, T, D]
        logits, copied = self.output(self.dropout(outputs)), None
        if self.copying is not None:
            logits, copied = self.copying(logits, features, attended.weights, state.source.copies)
        after = RecurrentState(layers, state.attended, state.source)
        return Step(logits, after, attended.weights, attended.sampled, copied)
