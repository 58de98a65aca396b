"""The interface of decoders, recurrent decoders with attention, and the layers at their ends: bridge and output."""
# B sentences, R = B x hypotheses rows, T steps, P steps before, S source steps, V vocabulary, L layers, N heads
# E embedding, H encoder state, D decoder state, C context

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from antiphon.models.attention import Attended, AttentionContext, ProjectedMemory, SampledAlignment
from antiphon.models.decoders.copying import CopyInputs, CopyMechanism, CopyProbabilities
from antiphon.models.layers.dropout import Dropout
from antiphon.models.layers.embedding import TokenEmbedding
from antiphon.models.layers.recurrent import RecurrentStack
from antiphon.sequence import Memory, Sequence, State

__all__ = [
    "AttentionDecoder", "AttentionWeights", "BahdanauDecoder", "Bridge", "Decoder", "DirectBridge", "Hidden",
    "LuongDecoder", "OutputLayer", "PrefixDecoder", "RecurrentState", "SoftmaxDecoder", "Step",
]  # fmt: skip

S = TypeVar("S", bound=State)
BLOCK = 1024  # tokens of the output layer whose weights fit into a core's cache


@dataclass(frozen=True)
class RecurrentState:
    """The state of a recurrent decoder with attention. The rows of a sentence are adjacent and share its source."""

    layers: tuple[Tensor, ...]  # each [R, L, D]: the hidden states, and the cells of an LSTM
    attended: Tensor  # [R, O]: the last attentional state, for input feeding; [R, 0] without
    source: ProjectedMemory

    def select(self, rows: Tensor) -> RecurrentState:
        """Rows [B', k]: for each remaining sentence, the rows that its k hypotheses continue."""
        flat = rows.reshape(-1)
        return RecurrentState(
            layers=tuple(part[flat] for part in self.layers),
            attended=self.attended[flat],
            source=self.source.for_rows(rows, self.attended.size(0)),
        )


@dataclass(frozen=True)
class Step(Generic[S]):
    """The result of one or more decoder steps."""

    logits: Tensor  # [R, T, V]; with copying, log p of the mixture
    state: S
    weights: Tensor | None = None  # [R, T, S], where they come for free; `attention_weights` always has them
    sampled: SampledAlignment | None = None  # hard attention in training
    copied: CopyProbabilities | None = None


@dataclass(frozen=True)
class Hidden(Generic[S]):
    """One or more decoder steps before the output layer."""

    outputs: Tensor  # [R, T, D]: what the output layer reads
    state: S
    weights: Tensor | None = None  # as in Step
    sampled: SampledAlignment | None = None
    copying: CopyInputs | None = None  # for a decoder that copies


@dataclass(frozen=True)
class AttentionWeights:
    """The weights of every layer and head; None where a model has no such attention."""

    cross: Tensor | None = None  # decoder to source [R, L, N, T, S]
    own: Tensor | None = None  # decoder self-attention, including the steps of the state [R, L, N, T, P + T]
    source: Tensor | None = None  # encoder self-attention [B, L, N, S, S]


class Decoder(nn.Module, ABC, Generic[S]):
    """start(memory) → state; forward(tokens, state) → Step

    Teacher forcing is `forward` on the whole target, search is `forward` on one token, a forced prefix is `forward` on
    a few: the three agree.
    """

    output: nn.Linear  # from a state to logits

    @abstractmethod
    def start(self, memory: Memory) -> S: ...

    @abstractmethod
    def forward(self, tokens: Tensor, state: S) -> Step[S]: ...

    def hidden(self, tokens: Tensor, state: S) -> Hidden[S] | None:  # noqa: ARG002 (for subclasses)
        """`forward` without the output layer; None if there is more behind it than softmax."""
        return None

    def attention_weights(self, tokens: Tensor, state: S) -> AttentionWeights:
        """The weights of `forward` for every layer and head; slower."""
        weights = self(tokens, state).weights
        return AttentionWeights(cross=None if weights is None else weights[:, None, None])


class SoftmaxDecoder(Decoder[S]):
    """p(y_i) = softmax(W o_i + b), or with `copying` a mixture with copies; a subclass computes o_i"""

    copying: CopyMechanism | None

    @abstractmethod
    def advance(self, tokens: Tensor, state: S) -> Hidden[S]:
        """Outputs o for tokens [R, T], and all else that a Step needs."""

    def forward(self, tokens: Tensor, state: S) -> Step[S]:
        hidden = self.advance(tokens, state)
        logits, copied = self.output(hidden.outputs), None
        if self.copying is not None and (inputs := hidden.copying) is not None:
            logits, copied = self.copying(logits, inputs.query, inputs.weights, inputs.copies)
        return Step(logits, hidden.state, hidden.weights, hidden.sampled, copied)

    def hidden(self, tokens: Tensor, state: S) -> Hidden[S] | None:
        return self.advance(tokens, state) if self.copying is None else None


class PrefixDecoder(SoftmaxDecoder[S]):
    """A decoder that can also read vectors, so that one network reads the source and writes the target."""

    @abstractmethod
    def read_prefix(self, source: Sequence, state: S) -> S:
        """The state after the real positions of source vectors [B, S, E]."""


class AttentionDecoder(SoftmaxDecoder[RecurrentState]):
    """A recurrent decoder with attention

    A subclass decides when to attend: before its step, or after.
    """

    word_in_output: bool  # the token y_{i-1} enters o_i directly

    def __init__(
        self,
        *,
        embedding: TokenEmbedding,
        stack: RecurrentStack,
        context: AttentionContext,
        bridge: Bridge,
        dropout: float,
        input_feeding: bool = False,
        copying: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.context = context
        self.bridge = bridge
        self.input_feeding = input_feeding  # o_{i-1} enters step i
        features = stack.size + context.size + (embedding.size if self.word_in_output else 0)
        self.combine = nn.Linear(features, stack.size)
        self.dropout = Dropout(dropout)
        self.output = OutputLayer(stack.size, embedding.tokens)
        self.copying = CopyMechanism(query=stack.size + context.size + embedding.size) if copying else None

    def start(self, memory: Memory) -> RecurrentState:
        layers = self.bridge(memory.final)
        attended = layers[0].new_zeros(layers[0].size(0), self.stack.size if self.input_feeding else 0)
        return RecurrentState(layers, attended, source=self.context.prepare(memory))

    def _hidden(
        self, outputs: Tensor, words: Tensor, tops: Tensor, attended: Attended, state: RecurrentState
    ) -> Hidden[RecurrentState]:
        """Outputs o, token vectors, top states [R, T, D] and their attention, with the state after them."""
        copying = None
        if self.copying is not None:
            query = torch.cat([tops, attended.context, words], dim=-1)
            copying = CopyInputs(query, attended.weights, state.source.copies)
        return Hidden(outputs, state, attended.weights, attended.sampled, copying)


class BahdanauDecoder(AttentionDecoder):
    """c_i = Σ_j α_ij h_j with α from s_{i-1};  s_i = g(s_{i-1}, [y_{i-1}; c_i]);  o_i = tanh(W [s_i; c_i; y_{i-1}])"""

    word_in_output = True

    def advance(self, tokens: Tensor, state: RecurrentState) -> Hidden[RecurrentState]:
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
        return self._hidden(self.dropout(outputs), words, tops, attended, after)


class LuongDecoder(AttentionDecoder):
    """s_i = g(s_{i-1}, y_{i-1});  c_i = Σ_j α_ij h_j with α from s_i;  o_i = tanh(W1 s_i + W2 c_i)

    With input feeding the step is s_i = g(s_{i-1}, [y_{i-1}; o_{i-1}]). Without it no step depends on the attention of
    another, so the recurrent network runs over all steps at once.
    """

    word_in_output = False

    def advance(self, tokens: Tensor, state: RecurrentState) -> Hidden[RecurrentState]:
        words = self.embedding(tokens)  # [R, T, E]
        if self.input_feeding:
            return self._step_by_step(words, state)
        tops, layers = self.stack.run(words, state.layers)
        outputs, attended = self._attend(tops, state.source)
        return self._hidden(outputs, words, tops, attended, RecurrentState(layers, state.attended, state.source))

    def _step_by_step(self, words: Tensor, state: RecurrentState) -> Hidden[RecurrentState]:
        layers, output, states, outputs, steps = state.layers, state.attended, [], [], []
        for word in words.unbind(dim=1):
            top, layers = self.stack.step(torch.cat([word, output], dim=-1), layers)
            attentional, step = self._attend(top.unsqueeze(1), state.source)
            output = attentional.squeeze(1)
            states.append(top)
            outputs.append(output)
            steps.append(step)
        tops, after = torch.stack(states, dim=1), RecurrentState(layers, output, state.source)
        return self._hidden(torch.stack(outputs, dim=1), words, tops, Attended.concat(steps), after)

    def _attend(self, tops: Tensor, source: ProjectedMemory) -> tuple[Tensor, Attended]:
        """Top states [R, T, D] → outputs o [R, T, D] with dropout, and their attention."""
        attended: Attended = self.context(tops, source)
        outputs = torch.tanh(self.combine(torch.cat([tops, attended.context], dim=-1)))  # [W1 W2] [s; c]
        return self.dropout(outputs), attended


class OutputLayer(nn.Linear):
    """logits = W s + b

    Without gradients, a large vocabulary is computed in blocks, in a fifth less time; a test binds both ways.
    """

    def forward(self, input: Tensor) -> Tensor:
        small = self.out_features < 2 * BLOCK or input.size(1) > 1
        if small or torch.is_grad_enabled() or torch.onnx.is_in_onnx_export():
            return super().forward(input)
        rows = input.flatten(0, -2)  # [R, D]
        logits = rows.new_empty(rows.size(0), self.out_features)
        for first in range(0, self.out_features, BLOCK):
            block = slice(first, first + BLOCK)
            torch.addmm(self.bias[block], rows, self.weight[block].t(), out=logits[:, block])
        return logits.view(*input.shape[:-1], -1)


class Bridge(nn.Module):
    """s_0 = tanh(W h_n): one dense layer for each decoder layer, applied to the encoder layer of the same index

    A decoder with more layers than the encoder uses the encoder's top layer for the rest. The cells of an LSTM get
    dense layers of their own: `parts` is the number of tensors of a state.
    """

    def __init__(self, *, memory: int, size: int, layers: int, parts: int) -> None:
        super().__init__()
        self.dense = nn.ModuleList(nn.ModuleList(nn.Linear(memory, size) for _ in range(layers)) for _ in range(parts))

    def forward(self, final: Tensor) -> tuple[Tensor, ...]:
        """Final states [B, L, H] → a tensor [B, L', D] for each part of the decoder's state."""
        return tuple(self._first(part, final) for part in self.dense if isinstance(part, nn.ModuleList))

    @staticmethod
    def _first(layers: nn.ModuleList, final: Tensor) -> Tensor:
        return torch.stack([torch.tanh(dense(_layer(final, i))) for i, dense in enumerate(layers)], dim=1)


class DirectBridge(nn.Module):
    """s_0 = h_n, layer by layer as in Bridge; the cells of an LSTM start at 0"""

    def __init__(self, *, memory: int, size: int, layers: int, parts: int) -> None:
        super().__init__()
        if memory != size:
            raise ValueError(f"a state can only be handed over to one of equal size, not {memory} to {size}")
        self.layers = layers
        self.parts = parts

    def forward(self, final: Tensor) -> tuple[Tensor, ...]:
        first = torch.stack([_layer(final, i) for i in range(self.layers)], dim=1)
        return (first, *(torch.zeros_like(first) for _ in range(self.parts - 1)))


def _layer(final: Tensor, number: int) -> Tensor:
    """The final state of encoder layer `number`, or of the top layer where there are fewer."""
    return final[:, min(number, final.size(1) - 1)]
