"""A step of a Transformer decoder, worked out: the formula of each block, for one sentence and without fused kernels.

A plain computation with the layers of the model itself, beside the decoder's own `forward`; a test binds them.
"""
# B = 1 sentence, T decoder inputs, K keys: source that the network has read and inputs, S source steps, N heads,
# d size of a head, D state

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.inference.step_explanation import Sublayer
from antiphon.inference.worked_steps import WorkedStep, formula_of, work_out_copying
from antiphon.models.decoders.transformer_decoder import DecoderBlock, TransformerDecoder, TransformerState
from antiphon.models.layers.blocks import AddAndNorm
from antiphon.models.layers.positions import Positions
from antiphon.models.multihead import KeyValues, MultiHeadAttention
from antiphon.sequence import Memory

__all__ = ["work_out_blocks"]


@dataclass(frozen=True)
class WorkedHeads:
    """Multi-head attention of all inputs, head by head."""

    queries: Tensor  # Q [N, T, d]
    keys: Tensor  # K [N, K, d]
    values: Tensor  # V [N, K, d]
    scores: Tensor  # Q Kᵀ / √d [N, T, K], -∞ where masked
    weights: Tensor  # softmax of the scores [N, T, K]
    sums: Tensor  # softmax(Q Kᵀ / √d) V [N, T, d]
    output: Tensor  # W_O [head_1; ..; head_N] [T, D]


@dataclass(frozen=True)
class WorkedSublayer:
    """One sublayer for all inputs: the residual stream before and after, and what is added to it, each [T, D]."""

    kind: str
    before: Tensor
    output: Tensor
    after: Tensor
    heads: WorkedHeads | None = None


def work_out_blocks(
    decoder: TransformerDecoder,
    memory: Memory | None,
    start: TransformerState,
    inputs: Tensor,
    number: int,
    layer: int,
    head: int,
) -> WorkedStep:
    """Step `number` of inputs [1, T]; the parts of attention are those of one head of one layer, both from 0."""
    worked, words, real = WorkedStep(), decoder.embedding(inputs), torch.ones_like(inputs, dtype=torch.bool)
    if memory is not None:
        worked.add("states", "h_j", "x_1..x_n → h_1..h_n", ("source", "h"), memory.states[0])
        worked.spaces["h"] = memory.states[0]
    worked.add("word", "e(y_{i-1})", formula_of(type(decoder.embedding)), ("e",), words[0, number])
    stream = decoder.positions(words, start.position)
    stream = stream if decoder.embedding_norm is None else decoder.embedding_norm(stream, real)
    worked.add("input", "x", formula_of(Positions), ("s",), stream[0, number])
    worked.spaces |= {"e": words[0], "s": stream[0]}
    blocks = [block for block in decoder.blocks if isinstance(block, DecoderBlock)]
    sublayers: list[list[WorkedSublayer]] = []
    for depth, block in enumerate(blocks):
        before = stream[0] if not sublayers else sublayers[-1][-1].after
        sublayers.append(_block(block, before, depth, start))
    for part in sublayers[layer]:
        if part.heads is not None:
            _add_heads(worked, part.kind, part.heads, number, head)
    worked.layers = [
        _sublayer(depth, part, block, number)
        for depth, (block, parts) in enumerate(zip(blocks, sublayers, strict=True), start=1)
        for part in parts
    ]
    final = sublayers[-1][-1].after
    final = final if decoder.norm is None else decoder.norm(final[None], real)[0]
    worked.add("final", "s_i", formula_of(type(decoder), "s"), ("final",), final[number])
    worked.spaces["final"] = final
    logits = decoder.output(final[None, number, None])[0, 0]
    worked.add("logits", "W s_i + b", formula_of(type(decoder.output)), ("vocabulary",), logits)
    if decoder.copying is not None and start.memory is not None:
        weights = _cross(sublayers[-1]).weights[:, number].mean(dim=0)
        worked.add("weights", "a_j", "a_j = 1/N Σ_n α_nj of the last layer", ("source",), weights)
        work_out_copying(worked, decoder.copying, logits, final[number], weights, start.memory.copies)
    return worked


def _block(block: DecoderBlock, before: Tensor, depth: int, start: TransformerState) -> list[WorkedSublayer]:
    """The sublayers of a block for all inputs [T, D], one after another."""
    real = torch.ones(1, len(before), dtype=torch.bool, device=before.device)
    found: list[WorkedSublayer] = []

    def add(kind: str, name: str, output: Tensor, heads: WorkedHeads | None = None) -> None:
        stream = found[-1].after if found else before
        after = block.norms.after(name, stream[None], output[None], real)[0]
        found.append(WorkedSublayer(kind, stream, output, after, heads))

    def entering(name: str) -> Tensor:
        stream = found[-1].after if found else before
        return block.norms.before(name, stream[None], real)[0]

    inputs = entering("attention")
    own = block.attention.prepare(inputs[None])
    keys = own if start.prefix is None else start.prefix.layers[depth].append(own)
    past = keys.length - len(before)  # the source that the network has read
    heads = _attend(block.attention, inputs, keys, torch.ones(len(before), keys.length).tril(past).bool())
    add("own", "attention", heads.output, heads)
    if block.cross is not None and start.memory is not None:
        heads = _attend(block.cross, entering("cross"), start.memory.layers[depth])
        add("cross", "cross", heads.output, heads)
    add("feedforward", "feedforward", block.feedforward(entering("feedforward")))
    return found


def _attend(attention: MultiHeadAttention, inputs: Tensor, known: KeyValues, mask: Tensor | None = None) -> WorkedHeads:
    """Multi-head attention of inputs [T, D] to known keys and values; `mask` [T, K] is True where a step may look."""
    keys, values = known.keys[0], known.values[0]
    queries = attention.W_Q(inputs).unflatten(-1, (attention.heads, -1)).transpose(0, 1)  # [N, T, d]
    scores = queries @ keys.transpose(1, 2) / queries.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask.to(scores.device), -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    sums = weights @ values
    return WorkedHeads(queries, keys, values, scores, weights, sums, attention.W_O(sums.transpose(0, 1).flatten(1)))


def _cross(sublayers: list[WorkedSublayer]) -> WorkedHeads:
    return next(part.heads for part in sublayers if part.kind == "cross" and part.heads is not None)


def _add_heads(worked: WorkedStep, kind: str, heads: WorkedHeads, number: int, head: int) -> None:
    """Add the attention of one head: the query of the step, all keys and values, and the matrix of scores."""
    axis = "key" if kind == "own" else "source"
    keys, values = f"{kind}_keys", f"{kind}_values"
    query, attention = heads.queries[head, number], MultiHeadAttention
    worked.add(f"{kind}_query", "q_i", formula_of(attention, "Q"), (keys,), query)
    worked.add(keys, "k_j", formula_of(attention, "K"), (axis, keys), heads.keys[head])
    worked.add(values, "v_j", formula_of(attention, "V"), (axis, values), heads.values[head])
    worked.add(f"{kind}_matrix", "Q Kᵀ / √d", "", ("input", axis), heads.scores[head])
    worked.add(f"{kind}_scores", "q_i · k_j / √d", "", (axis,), heads.scores[head, number])
    worked.add(f"{kind}_weights", "softmax_j(q_i · k_j / √d)", "", (axis,), heads.weights[head, number])
    worked.add(f"{kind}_sum", "Σ_j α_ij v_j", formula_of(attention, "head_n"), (values,), heads.sums[head, number])
    worked.spaces |= {keys: torch.cat([heads.keys[head], heads.queries[head]]), values: heads.values[head]}


def _sublayer(layer: int, part: WorkedSublayer, block: DecoderBlock, number: int) -> Sublayer:
    """A sublayer of one step."""
    weights = None if part.heads is None else part.heads.weights[:, number].numpy()
    owner = type(block.feedforward) if part.heads is None else MultiHeadAttention
    before, output, after = (values[number].numpy() for values in (part.before, part.output, part.after))
    residual = formula_of(AddAndNorm, block.norms.order, sign=":")
    return Sublayer(layer, part.kind, formula_of(owner), residual, before, output, after, weights)
