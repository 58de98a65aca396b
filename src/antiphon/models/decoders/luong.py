"""The Luong decoder: step first; then look, with s_i."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, V vocabulary, E embedding, H state, C context

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.models.attention import Attended, AttentionContext, SourceSide
from antiphon.models.decoders.copying import Copying, mixed
from antiphon.models.decoders.decoder import Decoder, OutputLayer, RecurrentState, Step
from antiphon.models.decoders.static_context import Bridge
from antiphon.models.layers.embedding import TokenEmbedding
from antiphon.models.layers.recurrent import RecurrentStack
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
        copying: bool = False,
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
        self.copying = Copying(query=stack.size + context.size + embedding.size) if copying else None

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
        return self._said(words, tops, outputs, look, RecurrentState(layers, state.attended, state.source))

    def _fed(self, words: Tensor, state: RecurrentState) -> Step[RecurrentState]:
        layers, attended, tops, outputs, looks = state.layers, state.attended, [], [], []
        for word in words.unbind(dim=1):
            top, layers = self.stack.step(torch.cat([word, attended], dim=-1), layers)
            output, look = self._look(top.unsqueeze(1), state.source)
            attended = output.squeeze(1)
            tops.append(top)
            outputs.append(output)
            looks.append(look)
        after = RecurrentState(layers, attended, state.source)
        return self._said(words, torch.stack(tops, dim=1), torch.cat(outputs, dim=1), Attended.joined(looks), after)

    def _said(
        self, words: Tensor, tops: Tensor, outputs: Tensor, look: Attended, after: RecurrentState
    ) -> Step[RecurrentState]:
        """What was found in all steps, as their result."""
        own, seen = self.output(outputs), (tops, look.context, words)
        logits, copied = mixed(self.copying, own, seen, look.weights, after.source.copies)
        return Step(logits, after, look.weights, look.drawn, copied)

    def _look(self, tops: Tensor, source: SourceSide) -> tuple[Tensor, Attended]:
        look: Attended = self.context(tops, source)
        outputs = torch.tanh(self.combine(torch.cat([tops, look.context], dim=-1)))
        return self.dropout(outputs), look
