"""One step of a Transformer decoder in search: the formulas of TransformerDecoder with fewer and larger operations.

Queries, keys and values are one product, keys and values are written into room that was kept for them, and nothing is
computed that a single token does not need. A test binds it to `TransformerDecoder.forward`.
"""
# B sentences, R = B x hypotheses rows, N heads, d size of a head, D state, C steps that fit, P steps before, S source

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from antiphon.models.decoders.transformer_decoder import (
    DecoderBlock,
    SharedKeyValues,
    TransformerDecoder,
    TransformerState,
)
from antiphon.models.layers.blocks import LayerNorm, Norm
from antiphon.models.multihead import KeyValues, MultiHeadAttention

__all__ = ["RoomyKeyValues", "TransformerStep"]

ROOM = 32  # steps

Product = Callable[[Tensor], Tensor]
MakeProduct = Callable[[Tensor, Tensor | None], Product]


class KeyValueRoom:
    """Memory for keys and values [R, C, 2, N, d], of which the first `filled` steps are written.

    States of a search may share it, because only the state that ends where it is filled may write.
    """

    __slots__ = ("filled", "memory")

    def __init__(self, memory: Tensor, filled: int) -> None:
        self.memory = memory
        self.filled = filled

    @classmethod
    def holding(cls, past: KeyValues) -> KeyValueRoom:
        """Room with a copy of keys and values, and as much again."""
        R, N, P, d = past.keys.shape
        memory = past.keys.new_empty(R, max(ROOM, 2 * P), 2, N, d)
        if P:
            memory[:, :P, 0], memory[:, :P, 1] = past.keys.transpose(1, 2), past.values.transpose(1, 2)
        return cls(memory, P)

    def select(self, rows: Tensor, length: int) -> KeyValueRoom:
        """The first `length` steps of these rows, in memory of their own."""
        memory = self.memory.new_empty(rows.numel(), *self.memory.shape[1:])
        used = length * self.memory[0, 0].numel()
        torch.index_select(self.memory.flatten(1)[:, :used], 0, rows, out=memory.flatten(1)[:, :used])
        return KeyValueRoom(memory, length)


@dataclass(frozen=True)
class RoomyKeyValues(KeyValues):
    """Keys and values with room behind them for those of the next steps."""

    room: KeyValueRoom = field(repr=False)

    @classmethod
    def of(cls, room: KeyValueRoom, length: int) -> RoomyKeyValues:
        """The first steps of the room, as views."""
        keys, values = room.memory[:, :length].transpose(1, 3).unbind(2)  # [R, N, 2, P, d] → [R, N, P, d]
        return cls(keys, values, room)

    def select(self, rows: Tensor) -> RoomyKeyValues:
        length = self.length
        return RoomyKeyValues.of(self.room.select(rows, length), length)


def append_step(past: KeyValues, step: Tensor) -> RoomyKeyValues:
    """The keys and values of a step [R, 2, N, d] behind those before; nothing before is copied while there is room."""
    length = past.length
    room = past.room if isinstance(past, RoomyKeyValues) else None
    if room is None or room.filled != length or length == room.memory.size(1):
        room = KeyValueRoom.holding(past)
    room.memory[:, length].copy_(step)
    room.filled = length + 1
    return RoomyKeyValues.of(room, length + 1)


@dataclass(frozen=True)
class NormWeights:
    """The weights of a LayerNorm; calling torch's function directly takes half the time of the module for one row."""

    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, norm: Norm | None) -> NormWeights | None:
        if norm is None:
            return None
        assert isinstance(norm, LayerNorm)
        return cls(tuple(norm.normalized_shape), norm.weight.detach(), norm.bias.detach(), norm.eps)

    def __call__(self, states: Tensor) -> Tensor:
        return torch.layer_norm(states, self.shape, self.weight, self.bias, self.eps)


def _normed(norm: NormWeights | None, states: Tensor) -> Tensor:
    return states if norm is None else norm(states)


class BlockStep:
    """One token of each row through a DecoderBlock."""

    def __init__(self, block: DecoderBlock, make_product: MakeProduct) -> None:
        own, cross = block.attention, block.cross
        self.heads = own.heads
        self.qkv = _joined([own.W_Q, own.W_K, own.W_V], make_product)
        self.own_output = make_product(own.W_O.weight, own.W_O.bias)
        scale = (own.W_Q.out_features // own.heads) ** -0.5
        self.cross_query = None if cross is None else make_product(cross.W_Q.weight * scale, cross.W_Q.bias * scale)
        self.cross_output = None if cross is None else make_product(cross.W_O.weight, cross.W_O.bias)
        dense = block.feedforward
        self.inner, self.outer = (make_product(part.weight, part.bias) for part in (dense.W_1, dense.W_2))
        self.activation = torch.relu_ if dense.activation is functional.relu else dense.activation
        before, after = (block.norms.order == order for order in ("pre", "post"))
        norms = [NormWeights.of(block.norms[part]) if part in block.norms else None for part in PARTS]  # type: ignore[arg-type]
        self.before = [norm if before else None for norm in norms]
        self.after = [norm if after else None for norm in norms]

    def __call__(
        self, states: Tensor, past: KeyValues, memory: SharedKeyValues | None, layer: int
    ) -> tuple[Tensor, KeyValues]:
        """States [R, D] → new states, and the keys and values of all steps up to this one."""
        R, D = states.shape
        before, after, N = self.before, self.after, self.heads
        qkv = self.qkv(_normed(before[0], states)).view(R, 3, N, -1)
        own = append_step(past, qkv[:, 1:])
        attended = functional.scaled_dot_product_attention(qkv[:, 0].unsqueeze(2), own.keys, own.values)
        states = _normed(after[0], states + self.own_output(attended.reshape(R, D)))
        if memory is not None and self.cross_query is not None and self.cross_output is not None:
            attended = _attend(self.cross_query(_normed(before[1], states)), memory, layer, N)
            states = _normed(after[1], states + self.cross_output(attended))
        outputs = self.outer(self.activation(self.inner(_normed(before[2], states))))
        return _normed(after[2], states + outputs), own


PARTS = ("attention", "cross", "feedforward")


def _attend(queries: Tensor, memory: SharedKeyValues, layer: int, heads: int) -> Tensor:
    """Queries [R, D] of all heads, divided by √d → contexts [R, D]; the hypotheses of a sentence share its keys.

    Two products are twice as fast as torch's fused kernel where each sentence has one query.
    """
    R, D = queries.shape
    B, N, S, d = memory.layers[layer].keys.shape
    keys, values = (part.reshape(B * N, S, d) for part in (memory.layers[layer].keys, memory.layers[layer].values))
    folded = queries.view(B, R // B, heads, d).transpose(1, 2).reshape(B * N, R // B, d)
    scores = torch.bmm(folded, keys.transpose(1, 2))  # [B N, R/B, S]
    if memory.padding is not None:
        scores.view(B, N, R // B, S).add_(memory.padding)
    attended = torch.bmm(scores.softmax(dim=-1), values)
    return attended.view(B, N, R // B, d).transpose(1, 2).reshape(R, D)


def _joined(parts: list[torch.nn.Linear], make_product: MakeProduct) -> Product:
    """One product in place of several with the same input."""
    weight, bias = (torch.cat([getattr(part, name).detach() for part in parts]) for name in ("weight", "bias"))
    return make_product(weight, bias)


class TransformerStep:
    """`TransformerDecoder.forward` on one token of each row, outside training."""

    def __init__(self, decoder: TransformerDecoder, make_product: MakeProduct) -> None:
        self.embedding, self.positions = decoder.embedding.table.weight.detach(), decoder.positions
        self.first_norm, self.last_norm = NormWeights.of(decoder.embedding_norm), NormWeights.of(decoder.norm)
        self.blocks = [BlockStep(block, make_product) for block in decoder.decoder_blocks]
        self.output = decoder.output

    @staticmethod
    def fits(decoder: TransformerDecoder) -> bool:
        """True for a decoder of layer norms that does not copy: copying needs the attention weights of each step."""
        blocks = decoder.decoder_blocks
        parts = [*(norm for block in blocks for norm in block.norms.values()), decoder.embedding_norm, decoder.norm]
        plain = all(isinstance(part, LayerNorm | None) for part in parts)
        heads = all(type(block.attention) is MultiHeadAttention for block in blocks)
        return plain and heads and decoder.copying is None

    def __call__(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, tuple[KeyValues, ...]]:
        """Tokens [R, 1] → logits [R, 1, V], and each layer's keys and values."""
        vectors = torch.embedding(self.embedding, tokens)
        states = _normed(self.first_norm, self.positions(vectors, state.position)).squeeze(1)  # [R, D]
        layers = []
        for number, (block, past) in enumerate(zip(self.blocks, state.own, strict=True)):
            states, own = block(states, past, state.memory, number)
            layers.append(own)
        logits: Tensor = self.output(_normed(self.last_norm, states).unsqueeze(1))
        return logits, tuple(layers)
