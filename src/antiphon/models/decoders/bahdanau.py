"""The Bahdanau decoder: attend with s_{i-1} first, then step with the context."""
# R rows, T steps, S source steps, E embedding, D state

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.models.attention import Attended
from antiphon.models.decoders.decoder import AttentionDecoder, RecurrentState, Step

__all__ = ["BahdanauDecoder"]


class BahdanauDecoder(AttentionDecoder):
    """c_i = Σ_j α_ij h_j with α from s_{i-1};  s_i = g(s_{i-1}, [y_{i-1}; c_i]);  o_i = tanh(W [s_i; c_i; y_{i-1}])"""

    word_in_output = True

    def forward(self, tokens: Tensor, state: RecurrentState) -> Step[RecurrentState]:
        words = self.embedding(tokens)  # [R, T, E]
        layers, states, steps = state.layers, [], []
        for word in words.unbind(dim=1):
            step: Attended = self.context(layers[0][:, -1:], state.source)  # the query is the top state s_{i-1}
            top, layers = self.stack.step(torch.cat([word, step.context.squeeze(1)], dim=-1), layers)
            steps.append(step)
            states.append(top)
        tops, attended = torch.stack(states, dim=1), Attended.concat(steps)
        outputs = torch.tanh(self.combine(torch.cat([tops, attended.context, words], dim=-1)))  # [R, T, D]
        after = RecurrentState(layers, state.attended, state.source)
        return self._predict(self.dropout(outputs), words, tops, attended, after)
