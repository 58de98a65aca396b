"""The Transformer decoder: masked self-attention, cross-attention, and a state of cached keys and values."""
# B sentences, R = B x hypotheses rows, T steps, P steps before, S source steps, L layers, N heads, d size of a head
# D state, V vocabulary

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn

from antiphon.models.decoders.copying import CopyInputs, CopyMechanism
from antiphon.models.decoders.decoder import AttentionWeights, Hidden, OutputLayer, PrefixDecoder, Step
from antiphon.models.layers.blocks import BlockSpec
from antiphon.models.layers.dropout import Dropout
from antiphon.models.layers.embedding import TokenEmbedding
from antiphon.models.layers.positions import Positions
from antiphon.models.multihead import KeyValues, MaskedKeyValues, causal_mask
from antiphon.sequence import Memory, Sequence

__all__ = ["DecoderBlock", "SharedKeyValues", "TransformerDecoder", "TransformerState"]


@dataclass(frozen=True)
class SharedKeyValues:
    """Keys and values of a source in every layer [B, N, S, d], shared by the hypotheses of a sentence."""

    layers: tuple[KeyValues, ...]
    mask: Tensor  # [B, S]
    copies: Tensor | None = None  # [B, S]: each position as a target token, for a decoder that copies

    @cached_property
    def padding(self) -> Tensor | None:
        """Added to scores [B, N, T, S]: 0, and -inf where the mask is False; None if the mask is True everywhere."""
        if bool(self.mask.all()):
            return None
        zeros = self.layers[0].keys.new_zeros(self.mask.shape)
        return zeros.masked_fill_(~self.mask, float("-inf"))[:, None, None]

    def masked(self, layer: int) -> MaskedKeyValues:
        return MaskedKeyValues(self.layers[layer], self.mask[:, None, None])

    def for_rows(self, rows: Tensor, before: int) -> SharedKeyValues:
        """Those of the sentences of rows [B', k], selected among `before` rows.

        Sentences only ever leave, in order, so nothing is copied while all of them stay.
        """
        B = self.mask.size(0)
        if rows.size(0) == B:
            return self
        sentences = rows[:, 0] // (before // B)
        copies = None if self.copies is None else self.copies[sentences]
        return SharedKeyValues(tuple(part.select(sentences) for part in self.layers), self.mask[sentences], copies)


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of all steps so far. The rows of a sentence are adjacent and share its source."""

    own: tuple[KeyValues, ...]  # self-attention, per layer [R, N, P, d]
    memory: SharedKeyValues | None = None  # cross-attention; None without an encoder
    prefix: SharedKeyValues | None = None  # a source that this network read itself, before its first step

    @property
    def rows(self) -> int:
        return self.own[0].keys.size(0)

    @property
    def position(self) -> int | Tensor:
        """The position of the next token; after prefixes of unequal length, one for each row [R]."""
        past = self.own[0].length
        if self.prefix is None:
            return past
        lengths = self.prefix.mask.sum(1) + past
        return lengths.repeat_interleave(self.rows // lengths.size(0))

    def select(self, rows: Tensor) -> TransformerState:
        """Rows [B', k]: for each remaining sentence, the rows that its k hypotheses continue."""
        flat = rows.reshape(-1)
        return TransformerState(
            own=tuple(part.select(flat) for part in self.own),
            memory=None if self.memory is None else self.memory.for_rows(rows, self.rows),
            prefix=None if self.prefix is None else self.prefix.for_rows(rows, self.rows),
        )


@dataclass(frozen=True)
class BlockContext:
    """The keys and values that the steps of one call may attend to in one block, beside their own."""

    past: KeyValues
    mask: Tensor | None  # of self-attention [T, P + T]; None: no restriction
    prefix: MaskedKeyValues | None
    memory: MaskedKeyValues | None

    def self_attention(self, own: KeyValues) -> tuple[MaskedKeyValues, ...]:
        """The sides of self-attention: the prefix, if any, then past and own steps."""
        return (*(() if self.prefix is None else (self.prefix,)), MaskedKeyValues(own, self.mask))

    @property
    def causal(self) -> bool:
        """True for the first steps of all: their mask is the plain causal mask."""
        return self.mask is not None and self.past.length == 0 and self.prefix is None


class DecoderBlock(nn.Module):
    """Masked self-attention, add & norm; attention to the source, add & norm; feed-forward, add & norm"""

    def __init__(self, spec: BlockSpec, *, memory: int) -> None:
        """`memory`: size of the encoder's states; 0: no encoder."""
        super().__init__()
        self.attention = spec.attention()
        self.cross = spec.attention(memory) if memory else None
        self.feedforward = spec.feedforward()
        self.norms = spec.norms("attention", *(("cross",) if memory else ()), "feedforward")

    def forward(
        self, states: Tensor, real: Tensor, context: BlockContext, *, want_weights: bool = False
    ) -> tuple[Tensor, KeyValues, Tensor | None]:
        """States [R, T, D] and their mask [R, T] → new states, and the keys and values of all steps up to them.

        `want_weights`: also the cross-attention weights, averaged over heads and without dropout [R, T, S].
        """
        inputs = self.norms.before("attention", states, real)
        own = context.past.append(self.attention.prepare(inputs))
        outputs = self.attention(inputs, *context.self_attention(own), causal=context.causal)
        states, weights = self.norms.after("attention", states, outputs, real), None
        if self.cross is not None and context.memory is not None:
            inputs = self.norms.before("cross", states, real)
            states = self.norms.after("cross", states, self.cross(inputs, context.memory), real)
            weights = self.cross.weights(inputs, context.memory).mean(dim=1) if want_weights else None
        outputs = self.feedforward(self.norms.before("feedforward", states, real))
        return self.norms.after("feedforward", states, outputs, real), own, weights

    def weights(self, states: Tensor, real: Tensor, context: BlockContext) -> tuple[Tensor, Tensor | None]:
        """The weights of `forward`: self-attention [R, N, T, (S +) P + T], cross-attention [R, N, T, S]."""
        inputs = self.norms.before("attention", states, real)
        sides = context.self_attention(context.past.append(self.attention.prepare(inputs)))
        own = self.attention.weights(inputs, *sides)
        if self.cross is None or context.memory is None:
            return own, None
        outputs = self.attention(inputs, *sides, causal=context.causal)
        states = self.norms.after("attention", states, outputs, real)
        return own, self.cross.weights(self.norms.before("cross", states, real), context.memory)


class OneStep(Protocol):
    """A faster `forward` for one token of each row."""

    def __call__(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, tuple[KeyValues, ...]]:
        """Tokens [R, 1] → logits [R, 1, V], and each layer's keys and values."""
        ...


class TransformerDecoder(PrefixDecoder[TransformerState]):
    """s = block_L(.. block_1(y √d + p)), with first and last norms as in the encoder;  p(y_i) = softmax(W s_i)

    No step sees a later one, so all steps of a target are computed at once, and a state is the keys and values of the
    steps before. Without a memory it is a language model. Copying uses the cross-attention weights of the last block,
    averaged over heads, and s_i for the gate.
    """

    def __init__(
        self,
        *,
        embedding: TokenEmbedding,
        spec: BlockSpec,
        layers: int,
        positions: Positions,
        memory: int,
        padding: int,
        copying: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = positions
        self.embedding_norm = spec.first_norm()
        self.dropout = Dropout(spec.dropout)
        self.blocks = nn.ModuleList(DecoderBlock(spec, memory=memory) for _ in range(layers))
        self.norm = spec.last_norm()
        self.output = OutputLayer(spec.size, embedding.tokens)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        self.padding = padding  # the id of <pad>
        self.copying = CopyMechanism(query=spec.size) if copying else None
        self.one_step: OneStep | None = None  # put here when a model is opened

    @property
    def decoder_blocks(self) -> list[DecoderBlock]:
        return [block for block in self.blocks if isinstance(block, DecoderBlock)]

    def start(self, memory: Memory) -> TransformerState:
        blocks = self.decoder_blocks
        like = self.embedding.table.weight
        own = tuple(block.attention.empty(memory.mask.size(0), like) for block in blocks)
        cross = tuple(block.cross.prepare(memory.states) for block in blocks if block.cross is not None)
        if self.one_step is not None:  # every step reads them
            cross = tuple(KeyValues(part.keys.contiguous(), part.values.contiguous()) for part in cross)
        return TransformerState(own, SharedKeyValues(cross, memory.mask, memory.copies) if cross else None)

    def forward(self, tokens: Tensor, state: TransformerState) -> Step[TransformerState]:
        if self.one_step is not None and tokens.size(1) == 1 and state.prefix is None and not torch.is_grad_enabled():
            logits, own = self.one_step(tokens, state)
            return Step(logits, replace(state, own=own))
        return super().forward(tokens, state)

    def advance(self, tokens: Tensor, state: TransformerState) -> Hidden[TransformerState]:
        real = tokens != self.padding
        states, own, weights = self._run(self.embedding(tokens), real, state)
        if self.norm is not None:
            states = self.norm(states, real)
        copying = None
        if weights is not None and state.memory is not None:
            copying = CopyInputs(states, weights, state.memory.copies)
        return Hidden(states, replace(state, own=own), copying=copying)

    def read_prefix(self, source: Sequence, state: TransformerState) -> TransformerState:
        """The source is read from left to right, as the target is; padding comes last, so no step attends to it."""
        if state.own[0].length or state.prefix is not None:
            raise ValueError("a prefix is read before the first step")
        _, heads, _ = self._run(source.values, source.mask, state)
        return replace(state, prefix=SharedKeyValues(heads, source.mask))

    def attention_weights(self, tokens: Tensor, state: TransformerState) -> AttentionWeights:
        """`own` has a column for each step of the state and of this call [R, L, N, T, P + T].

        After `read_prefix`, `cross` is the part of self-attention that falls on the source; `cross` and `own` then
        share one softmax.
        """
        real = tokens != self.padding
        states, own, cross = self._embed(self.embedding(tokens), real, state), [], []
        for block, context in zip(self.decoder_blocks, self._contexts(tokens.size(1), state), strict=True):
            inner, outer = block.weights(states, real, context)
            if state.prefix is not None:
                outer, inner = inner.tensor_split([state.prefix.mask.size(1)], dim=-1)
            own.append(inner)
            cross += [] if outer is None else [outer]
            states, _, _ = block(states, real, context)
        return AttentionWeights(cross=torch.stack(cross, dim=1) if cross else None, own=torch.stack(own, dim=1))

    def _run(
        self, vectors: Tensor, real: Tensor, state: TransformerState
    ) -> tuple[Tensor, tuple[KeyValues, ...], Tensor | None]:
        """Token vectors [R, T, D] through all blocks: states, each layer's keys and values, weights to copy by."""
        states, layers, weights = self.dropout(self._embed(vectors, real, state)), [], None
        last = len(self.blocks) - 1
        for number, context in enumerate(self._contexts(vectors.size(1), state)):
            want_weights = self.copying is not None and number == last
            states, own, weights = self.blocks[number](states, real, context, want_weights=want_weights)
            layers.append(own)
        return states, tuple(layers), weights

    def _embed(self, vectors: Tensor, real: Tensor, state: TransformerState) -> Tensor:
        """The input of the first block: vectors with positions."""
        states: Tensor = self.positions(vectors, state.position, real)
        return states if self.embedding_norm is None else self.embedding_norm(states, real)

    def _contexts(self, steps: int, state: TransformerState) -> list[BlockContext]:
        """The context of the next steps in each block."""
        past = state.own[0].length
        mask = None if steps == 1 else causal_mask(steps, past, state.own[0].keys.device)
        return [
            BlockContext(
                past=own,
                mask=mask,
                prefix=None if state.prefix is None else state.prefix.masked(layer),
                memory=None if state.memory is None else state.memory.masked(layer),
            )
            for layer, own in enumerate(state.own)
        ]
