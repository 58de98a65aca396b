"""The Transformer decoder: masked self-attention, attention to the source, and a state of keys and values."""
# B sentences, R = B x hypotheses rows, T steps, P steps before, S source steps, N heads, d size of a head, V vocabulary

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from antiphon.data.tokenizers import PAD
from antiphon.models.decoders.copying import Copying, mixed
from antiphon.models.decoders.decoder import Looks, OutputLayer, Reader, Step
from antiphon.models.encoders.transformer_encoder import BlockPlan
from antiphon.models.layers.embedding import TokenEmbedding
from antiphon.models.layers.positions import Positions
from antiphon.models.multihead import Heads, Seen, causal_mask
from antiphon.sequence import Memory, Sequence

__all__ = ["DecoderBlock", "Shared", "TransformerDecoder", "TransformerState"]


@dataclass(frozen=True)
class Shared:
    """Keys and values of a source in every layer [B, N, S, d], once per sentence, and its mask [B, S]."""

    layers: tuple[Heads, ...]
    mask: Tensor
    copies: Tensor | None = None  # [B, S]: the target token that each position is, for a decoder that copies

    def seen(self, layer: int) -> Seen:
        return Seen(self.layers[layer], self.mask[:, None, None])

    def of_hypotheses(self, rows: Tensor, before: int) -> Shared:
        """What the sentences of rows [B', k] share, when there were so many rows before.

        While every sentence stays nothing is copied: sentences only ever leave, in order.
        """
        B = self.mask.size(0)
        if rows.size(0) == B:
            return self
        sentences = rows[:, 0] // (before // B)
        copies = None if self.copies is None else self.copies[sentences]
        return Shared(tuple(heads.select(sentences) for heads in self.layers), self.mask[sentences], copies)


@dataclass(frozen=True)
class TransformerState:
    """What was said so far, as keys and values. The rows of one sentence lie side by side and share its source."""

    own: tuple[Heads, ...]  # per layer [R, N, P, d]
    told: Shared | None = None  # what the encoder knows; None without an encoder
    read: Shared | None = None  # a source that this network read itself, before its own first step

    @property
    def rows(self) -> int:
        return self.own[0].keys.size(0)

    @property
    def position(self) -> int | Tensor:
        """Where the next token stands; after sources of unequal length, one for each row [R]."""
        past = self.own[0].length
        if self.read is None:
            return past
        lengths = self.read.mask.sum(1) + past
        return lengths.repeat_interleave(self.rows // lengths.size(0))

    def select(self, rows: Tensor) -> TransformerState:
        """Rows [B', k]: for each sentence that stays, the rows its k hypotheses go on from."""
        flat = rows.reshape(-1)
        return TransformerState(
            own=tuple(heads.select(flat) for heads in self.own),
            told=None if self.told is None else self.told.of_hypotheses(rows, self.rows),
            read=None if self.read is None else self.read.of_hypotheses(rows, self.rows),
        )


@dataclass(frozen=True)
class Before:
    """What lies before the steps of one call, for one block."""

    past: Heads
    mask: Tensor | None  # which of its own keys a step may look at [T, P + T]; None: all
    read: Seen | None
    told: Seen | None

    def sides(self, own: Heads) -> tuple[Seen, ...]:
        """All that self-attention may look at."""
        return (*(() if self.read is None else (self.read,)), Seen(own, self.mask))

    @property
    def nothing(self) -> bool:
        """The first steps of all look at nothing but themselves."""
        return self.mask is not None and self.past.length == 0 and self.read is None


class DecoderBlock(nn.Module):
    """Masked self-attention, add & norm; attention to the source, add & norm; feed-forward, add & norm"""

    def __init__(self, plan: BlockPlan, *, memory: int) -> None:
        """`memory`: size of the encoder's states; 0: there is no encoder to look at."""
        super().__init__()
        self.attention = plan.attention()
        self.cross = plan.attention(memory) if memory else None
        self.feedforward = plan.feedforward()
        self.norms = plan.norms("attention", *(("cross",) if memory else ()), "feedforward")

    def forward(
        self, states: Tensor, real: Tensor, before: Before, *, pointing: bool = False
    ) -> tuple[Tensor, Heads, Tensor | None]:
        """States [R, T, H] and which are real [R, T] → new states, and all own keys and values up to them.

        `pointing`: and with which weights it looked at the source, the mean of all heads [R, T, S], without dropout.
        """
        inside = self.norms.before("attention", states, real)
        own = before.past.then(self.attention.prepare(inside))
        found = self.attention(inside, *before.sides(own), causal=before.nothing)
        states, weights = self.norms.after("attention", states, found, real), None
        if self.cross is not None and before.told is not None:
            inside = self.norms.before("cross", states, real)
            states = self.norms.after("cross", states, self.cross(inside, before.told), real)
            weights = self.cross.weights(inside, before.told).mean(dim=1) if pointing else None
        found = self.feedforward(self.norms.before("feedforward", states, real))
        return self.norms.after("feedforward", states, found, real), own, weights

    def weights(self, states: Tensor, real: Tensor, before: Before) -> tuple[Tensor, Tensor | None]:
        """Where `forward` looks: to itself [R, N, T, (S +) P + T], to the source [R, N, T, S]."""
        inside = self.norms.before("attention", states, real)
        sides = before.sides(before.past.then(self.attention.prepare(inside)))
        own = self.attention.weights(inside, *sides)
        if self.cross is None or before.told is None:
            return own, None
        found = self.attention(inside, *sides, causal=before.nothing)
        states = self.norms.after("attention", states, found, real)
        return own, self.cross.weights(self.norms.before("cross", states, real), before.told)


class TransformerDecoder(Reader[TransformerState]):
    """s = block_L(.. block_1(y √d + p)), with first and last norms as in the encoder;  p(y_i) = softmax(W s_i)

    No step sees a later one, so all steps of a target are computed at once, and going on from a state needs only the
    keys and values of the steps before. Without a memory it is a language model. It copies by the weights of its last
    block, the mean of all heads, and the gate sees s_i.
    """

    def __init__(
        self,
        *,
        embedding: TokenEmbedding,
        plan: BlockPlan,
        layers: int,
        positions: Positions,
        memory: int,
        copying: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = positions
        self.embedding_norm = plan.first_norm()
        self.dropout = nn.Dropout(plan.dropout)
        self.blocks = nn.ModuleList(DecoderBlock(plan, memory=memory) for _ in range(layers))
        self.norm = plan.last_norm()
        self.output = OutputLayer(plan.size, embedding.tokens)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        self.copying = Copying(query=plan.size) if copying else None

    def start(self, memory: Memory) -> TransformerState:
        blocks = self._blocks()
        like = self.embedding.table.weight
        own = tuple(block.attention.nothing(memory.mask.size(0), like) for block in blocks)
        told = tuple(block.cross.prepare(memory.states) for block in blocks if block.cross is not None)
        return TransformerState(own, told=Shared(told, memory.mask, memory.copies) if told else None)

    def forward(self, tokens: Tensor, state: TransformerState) -> Step[TransformerState]:
        states, own, pointed = self._run(self.embedding(tokens), tokens != PAD, state)
        if self.norm is not None:
            states = self.norm(states, tokens != PAD)
        logits, copied = self.output(states), None
        if pointed is not None and state.told is not None:
            logits, copied = mixed(self.copying, logits, (states,), pointed, state.told.copies)
        return Step(logits, replace(state, own=own), copied=copied)

    def read(self, source: Sequence, state: TransformerState) -> TransformerState:
        """The source is read from left to right, as what is said after it; padding stands last, so nobody sees it."""
        if state.own[0].length or state.read is not None:
            raise ValueError("a source is read before all else")
        _, heads, _ = self._run(source.values, source.mask, state)
        return replace(state, read=Shared(heads, source.mask))

    def look(self, tokens: Tensor, state: TransformerState) -> Looks:
        """`own` has a column for each step of the state and of this call [R, L, N, T, P + T].

        Where this network read the source itself, `cross` is what its self-attention gives to the source; `cross` and
        `own` then share one softmax.
        """
        real = tokens != PAD
        states, own, cross = self._first(self.embedding(tokens), real, state), [], []
        for block, before in zip(self._blocks(), self._before(tokens.size(1), state), strict=True):
            inner, outer = block.weights(states, real, before)
            if state.read is not None:
                outer, inner = inner.tensor_split([state.read.mask.size(1)], dim=-1)
            own.append(inner)
            cross += [] if outer is None else [outer]
            states, _, _ = block(states, real, before)
        return Looks(cross=torch.stack(cross, dim=1) if cross else None, own=torch.stack(own, dim=1))

    def _run(
        self, vectors: Tensor, real: Tensor, state: TransformerState
    ) -> tuple[Tensor, tuple[Heads, ...], Tensor | None]:
        """Token vectors [R, T, H] through all blocks: their states, and the keys and values to go on from.

        A decoder that copies gets the weights of the last block as well.
        """
        states, layers, weights = self.dropout(self._first(vectors, real, state)), [], None
        last = len(self.blocks) - 1
        for number, before in enumerate(self._before(vectors.size(1), state)):
            pointing = self.copying is not None and number == last
            states, own, weights = self.blocks[number](states, real, before, pointing=pointing)
            layers.append(own)
        return states, tuple(layers), weights

    def _first(self, vectors: Tensor, real: Tensor, state: TransformerState) -> Tensor:
        """What enters the first block."""
        states: Tensor = self.positions(vectors, state.position, real)
        return states if self.embedding_norm is None else self.embedding_norm(states, real)

    def _before(self, steps: int, state: TransformerState) -> list[Before]:
        """What lies before the next steps, for each block."""
        past = state.own[0].length
        mask = None if steps == 1 else causal_mask(steps, past, state.own[0].keys.device)
        return [
            Before(
                past=heads,
                mask=mask,
                read=None if state.read is None else state.read.seen(layer),
                told=None if state.told is None else state.told.seen(layer),
            )
            for layer, heads in enumerate(state.own)
        ]

    def _blocks(self) -> list[DecoderBlock]:
        return [block for block in self.blocks if isinstance(block, DecoderBlock)]
