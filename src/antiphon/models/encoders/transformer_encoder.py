"""The Transformer encoder: every position looks at every other, in blocks stacked on one another."""
# B batch, S source steps, H state, L layers, N heads

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from antiphon.models.encoders.encoder import Encoder
from antiphon.models.layers.blocks import AddAndNorm, FeedForward, Norm, Order
from antiphon.models.layers.positions import Positions
from antiphon.models.multihead import MultiHeadAttention, Seen
from antiphon.sequence import Memory, Sequence

__all__ = ["BlockPlan", "EncoderBlock", "TransformerEncoder"]


@dataclass(frozen=True)
class BlockPlan:
    """What the blocks of a Transformer are made of; encoder and decoder give these parts the same names."""

    size: int
    heads: int
    inner: int
    order: Order
    norm: type[Norm]
    activation: Callable[[Tensor], Tensor]
    dropout: float
    embedding_norm: bool = False

    def attention(self, memory: int | None = None) -> MultiHeadAttention:
        """To states of this size; None: to the block's own."""
        return MultiHeadAttention(
            query=self.size, memory=memory or self.size, size=self.size, heads=self.heads, dropout=self.dropout
        )

    def feedforward(self) -> FeedForward:
        return FeedForward(size=self.size, inner=self.inner, activation=self.activation, dropout=self.dropout)

    def norms(self, *parts: str) -> AddAndNorm:
        return AddAndNorm(parts=parts, norm=self.norm, size=self.size, order=self.order, dropout=self.dropout)

    def first_norm(self) -> Norm | None:
        """Of vectors with their positions, before the first block."""
        return self.norm(self.size) if self.embedding_norm else None

    def last_norm(self) -> Norm | None:
        """In pre order the sum that leaves the last block has not been normed."""
        return self.norm(self.size) if self.order == "pre" else None


class EncoderBlock(nn.Module):
    """Self-attention, add & norm; feed-forward, add & norm"""

    def __init__(self, plan: BlockPlan) -> None:
        super().__init__()
        self.attention = plan.attention()
        self.feedforward = plan.feedforward()
        self.norms = plan.norms("attention", "feedforward")

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """States [B, S, H] that look at the real ones among them, mask [B, S]."""
        inside = self.norms.before("attention", states, mask)
        found = self.attention(inside, self._seen(inside, mask))
        states = self.norms.after("attention", states, found, mask)
        found = self.feedforward(self.norms.before("feedforward", states, mask))
        return self.norms.after("feedforward", states, found, mask)

    def weights(self, states: Tensor, mask: Tensor) -> Tensor:
        """Where `forward` looks [B, N, S, S]."""
        inside = self.norms.before("attention", states, mask)
        return self.attention.weights(inside, self._seen(inside, mask))

    def _seen(self, inside: Tensor, mask: Tensor) -> Seen:
        return Seen(self.attention.prepare(inside), mask[:, None, None])


class TransformerEncoder(Encoder):
    """h = block_L(.. block_1(x √d + p)), with a last norm in pre order, and with embedding_norm a first one"""

    def __init__(self, *, plan: BlockPlan, layers: int, positions: Positions) -> None:
        super().__init__()
        self.size = plan.size
        self.positions = positions
        self.embedding_norm = plan.first_norm()
        self.dropout = nn.Dropout(plan.dropout)
        self.blocks = nn.ModuleList(EncoderBlock(plan) for _ in range(layers))
        self.norm = plan.last_norm()

    def forward(self, source: Sequence) -> Memory:
        states = self.dropout(self._first(source))
        for block in self.blocks:
            states = block(states, source.mask)
        if self.norm is not None:
            states = self.norm(states, source.mask)
        return Memory(states, source.mask, final=Sequence(states, source.mask).last.unsqueeze(1))

    def look(self, source: Sequence) -> Tensor:
        states, weights = self._first(source), []
        for block in self.blocks:
            assert isinstance(block, EncoderBlock)
            weights.append(block.weights(states, source.mask))
            states = block(states, source.mask)
        return torch.stack(weights, dim=1)

    def _first(self, source: Sequence) -> Tensor:
        """What enters the first block."""
        states: Tensor = self.positions(source.values)
        return states if self.embedding_norm is None else self.embedding_norm(states, source.mask)
