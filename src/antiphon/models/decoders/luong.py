"""The Luong decoder: step first, then attend with s_i."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, V vocabulary, E embedding, D state, C context

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.models.attention import Attended, AttentionContext, ProjectedMemory
from antiphon.models.decoders.copying import CopyMechanism
from antiphon.models.decoders.decoder import Bridge, Decoder, OutputLayer, RecurrentState, Step
from antiphon.models.layers.embedding import TokenEmbedding
from antiphon.models.layers.recurrent import RecurrentStack
from antiphon.sequence import Memory

__all__ = ["LuongDecoder"]


class LuongDecoder(Decoder[RecurrentState]):
    """s_i = g(s_{i-1}, y_{i-1});  c_i = Σ_j α_ij h_j with α from s_i;  o_i = tanh(W1 s_i + W2 c_i)

    With input feeding the step is s_i = g(s_{i-1}, [y_{i-1}; o_{i-1}]). Without it no step depends on the attention of
    another, so the recurrent network runs over all steps at once.
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
        self.copying = CopyMechanism(query=stack.size + context.size + embedding.size) if copying else None

    def start(self, memory: Memory) -> RecurrentState:
        layers = self.bridge(memory.final)
        B, size = layers[0].size(0), self.stack.size if self.input_feeding else 0
        return RecurrentState(layers, attended=layers[0].new_zeros(B, size), source=self.context.prepare(memory))

    def forward(self, tokens: Tensor, state: RecurrentState) -> Step[RecurrentState]:
        words = self.embedding(tokens)  # [R, T, E]
        if self.input_feeding:
            tops, outputs, attended, after = self._step_by_step(words, state)
        else:
            tops, layers = self.stack.run(words, state.layers)
            outputs, attended = self._attend(tops, state.source)
            after = RecurrentState(layers, state.attended, state.source)
        logits, copied = self.output(outputs), None
        if self.copying is not None:
            query = torch.cat([tops, attended.context, words], dim=-1)
            logits, copied = self.copying(logits, query, attended.weights, state.source.copies)
        return Step(logits, after, attended.weights, attended.sampled, copied)

    def _step_by_step(self, words: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor, Attended, RecurrentState]:
        """Input feeding: top states [R, T, D], outputs o [R, T, D], their attention, and the state after them."""
        layers, last, tops, outputs, steps = state.layers, state.attended, [], [], []
        for word in words.unbind(dim=1):
            top, layers = self.stack.step(torch.cat([word, last], dim=-1), layers)
            output, step = self._attend(top.unsqueeze(1), state.source)
            last = output.squeeze(1)
            tops.append(top)
            outputs.append(output)
            steps.append(step)
        after = RecurrentState(layers, last, state.source)
        return torch.stack(tops, dim=1), torch.cat(outputs, dim=1), Attended.concat(steps), after

    def _attend(self, tops: Tensor, source: ProjectedMemory) -> tuple[Tensor, Attended]:
        """Top states [R, T, D] → outputs o [R, T, D] with dropout, and their attention."""
        attended: Attended = self.context(tops, source)
        outputs = torch.tanh(self.combine(torch.cat([tops, attended.context], dim=-1)))
        return self.dropout(outputs), attended
