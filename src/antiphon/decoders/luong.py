"""The Luong decoder: step first; then look, with s_i."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, V vocabulary, E embedding, H state, C context

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.attention.context import Attended, AttentionContext, SourceSide
from antiphon.decoders.bridge import Bridge
from antiphon.decoders.output import OutputLayer
from antiphon.decoders.stack import RecurrentStack
from antiphon.decoders.state import Decoder, RecurrentState, Step
from antiphon.encoders.embedding import TokenEmbedding
from antiphon.sequence import Memory

__all__ = ["LuongDecoder"]


class LuongDecoder(Decoder[RecurrentState]):
    """s_i = g(s_{i-1}, y_{i-1});  c_i = Σ_j α_ij h_j with α from s_i;  o_i = tanh(W1 s_i + W2 c_i)

    With input feeding the step is s_i = g(s_{i-1}, [y_{i-1}; o_{i-1}]). Without it nothing of a step's look enters
    the next, so the network runs over all steps at once.
    """

    def __init__(
        self,
        *,
        embedding: TokenEmbedding,
        stack: RecurrentStack,
        context: AttentionContext,
        bridge: Bridge,
        dropout: float,
        input_feeding: bool,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.context = context
        self.bridge = bridge
        self.input_feeding = input_feeding
        self.combine = nn.Linear(stack.size + context.size, stack.size)  # [W1 W2]
        self.dropout = nn.Dropout(dropout)
        self.output = OutputLayer(stack.size, embedding.tokens)

    def start(self, memory: Memory) -> RecurrentState:
        layers = self.bridge(memory.final)
        B, fed = layers[0].size(0), self.stack.size if self.input_feeding else 0
        return RecurrentState(layers, attended=layers[0].new_zeros(B, fed), source=self.context.prepare(memory))

    def forward(self, tokens: Tensor, state: RecurrentState) -> Step[RecurrentState]:
        words = self.embedding(tokens)  # [R, T, E]
        if self.input_feeding:
            return self._fed(words, state)
        tops, layers = self.stack.run(words, state.layers)
        outputs, look = self._look(tops, state.source)
        after = RecurrentState(layers, state.attended, state.source)
        return Step(self.output(outputs), after, look.weights, look.drawn)

    def _fed(self, words: Tensor, state: RecurrentState) -> Step[RecurrentState]:
        layers, attended, outputs, looks = state.layers, state.attended, [], []
        for word in words.unbind(dim=1):
            top, layers = self.stack.step(torch.cat([word, attended], dim=-1), layers)
            output, look = self._look(top.unsqueeze(1), state.source)
            attended = output.squeeze(1)
            outputs.append(output)
            looks.append(look)
        logits, looked = self.output(torch.cat(outputs, dim=1)), Attended.joined(looks)
        return Step(logits, RecurrentState(layers, attended, state.source), looked.weights, looked.drawn)

    def _look(self, tops: Tensor, source: SourceSide) -> tuple[Tensor, Attended]:
        look: Attended = self.context(tops, source)
        outputs = torch.tanh(self.combine(torch.cat([tops, look.context], dim=-1)))
        return self.dropout(outputs), look
