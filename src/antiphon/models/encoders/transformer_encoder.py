"""The Transformer encoder: stacked blocks in which every position attends to every other."""
# B batch, S source steps, H state, L layers, N heads

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.models.encoders.encoder import Encoder
from antiphon.models.layers.blocks import BlockSpec
from antiphon.models.layers.dropout import Dropout
from antiphon.models.layers.positions import Positions
from antiphon.models.multihead import MaskedKeyValues
from antiphon.sequence import Memory, Sequence

__all__ = ["EncoderBlock", "TransformerEncoder"]


class EncoderBlock(nn.Module):
    """Self-attention, add & norm; feed-forward, add & norm"""

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__()
        self.attention = spec.attention()
        self.feedforward = spec.feedforward()
        self.norms = spec.norms("attention", "feedforward")

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """States [B, S, H] and their mask [B, S] → states [B, S, H]."""
        inputs = self.norms.before("attention", states, mask)
        outputs = self.attention(inputs, self._keys(inputs, mask))
        states = self.norms.after("attention", states, outputs, mask)
        outputs = self.feedforward(self.norms.before("feedforward", states, mask))
        return self.norms.after("feedforward", states, outputs, mask)

    def weights(self, states: Tensor, mask: Tensor) -> Tensor:
        """The attention weights of `forward` [B, N, S, S]."""
        inputs = self.norms.before("attention", states, mask)
        return self.attention.weights(inputs, self._keys(inputs, mask))

    def _keys(self, inputs: Tensor, mask: Tensor) -> MaskedKeyValues:
        return MaskedKeyValues(self.attention.prepare(inputs), mask[:, None, None])


class TransformerEncoder(Encoder):
    """h = block_L(.. block_1(x √d + p)), with a last norm in pre order, and with embedding_norm a first one"""

    def __init__(self, *, spec: BlockSpec, layers: int, positions: Positions) -> None:
        super().__init__()
        self.size = spec.size
        self.positions = positions
        self.embedding_norm = spec.first_norm()
        self.dropout = Dropout(spec.dropout)
        self.blocks = nn.ModuleList(EncoderBlock(spec) for _ in range(layers))
        self.norm = spec.last_norm()

    def forward(self, source: Sequence) -> Memory:
        states = self.dropout(self._embed(source))
        for block in self.blocks:
            states = block(states, source.mask)
        if self.norm is not None:
            states = self.norm(states, source.mask)
        return Memory(states, source.mask, final=Sequence(states, source.mask).last.unsqueeze(1))

    def attention_weights(self, source: Sequence) -> Tensor:
        states, weights = self._embed(source), []
        for block in self.blocks:
            assert isinstance(block, EncoderBlock)
            weights.append(block.weights(states, source.mask))
            states = block(states, source.mask)
        return torch.stack(weights, dim=1)

    def _embed(self, source: Sequence) -> Tensor:
        """The input of the first block: vectors with positions."""
        states: Tensor = self.positions(source.values)
        return states if self.embedding_norm is None else self.embedding_norm(states, source.mask)
