"""Decoders with attention, in both orders: Bahdanau's attends and then steps, Luong's steps and then attends."""
# R rows, T steps, S source steps, E embedding, D state

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.models.attention import Attended, ProjectedMemory
from antiphon.models.decoders.decoder import AttentionDecoder, RecurrentState, Step

__all__ = ["BahdanauDecoder", "LuongDecoder"]


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


class LuongDecoder(AttentionDecoder):
    """s_i = g(s_{i-1}, y_{i-1});  c_i = Σ_j α_ij h_j with α from s_i;  o_i = tanh(W1 s_i + W2 c_i)

    With input feeding the step is s_i = g(s_{i-1}, [y_{i-1}; o_{i-1}]). Without it no step depends on the attention of
    another, so the recurrent network runs over all steps at once.
    """

    word_in_output = False

    def forward(self, tokens: Tensor, state: RecurrentState) -> Step[RecurrentState]:
        words = self.embedding(tokens)  # [R, T, E]
        if self.input_feeding:
            return self._step_by_step(words, state)
        tops, layers = self.stack.run(words, state.layers)
        outputs, attended = self._attend(tops, state.source)
        return self._predict(outputs, words, tops, attended, RecurrentState(layers, state.attended, state.source))

    def _step_by_step(self, words: Tensor, state: RecurrentState) -> Step[RecurrentState]:
        layers, output, states, outputs, steps = state.layers, state.attended, [], [], []
        for word in words.unbind(dim=1):
            top, layers = self.stack.step(torch.cat([word, output], dim=-1), layers)
            attentional, step = self._attend(top.unsqueeze(1), state.source)
            output = attentional.squeeze(1)
            states.append(top)
            outputs.append(output)
            steps.append(step)
        tops, after = torch.stack(states, dim=1), RecurrentState(layers, output, state.source)
        return self._predict(torch.stack(outputs, dim=1), words, tops, Attended.concat(steps), after)

    def _attend(self, tops: Tensor, source: ProjectedMemory) -> tuple[Tensor, Attended]:
        """Top states [R, T, D] → outputs o [R, T, D] with dropout, and their attention."""
        attended: Attended = self.context(tops, source)
        outputs = torch.tanh(self.combine(torch.cat([tops, attended.context], dim=-1)))  # [W1 W2] [s; c]
        return self.dropout(outputs), attended
