"""The weights of a Transformer by their names here and in `transformers`, where Marian and BART share one naming."""
# V vocabulary, H state, F inner size

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.config.models import EncoderDecoderConfig, TransformerConfig

__all__ = [
    "BIAS",
    "HEAD",
    "HEAD_BIAS",
    "OUTPUT",
    "SHARED",
    "SOURCE_TABLE",
    "SOURCE_THERE",
    "TARGET_TABLE",
    "TARGET_THERE",
    "Weight",
    "sines_first",
    "to_ours",
    "to_theirs",
    "weights_of",
]

SOURCE_TABLE, TARGET_TABLE = "source.embedding.table.weight", "decoder.embedding.table.weight"
OUTPUT, BIAS = "decoder.output.weight", "decoder.output.bias"
SHARED, HEAD, HEAD_BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
SOURCE_THERE, TARGET_THERE = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
# Of matrices that are given a state, its values are the columns; of those that make one (and of norms) the rows.
READS, MAKES = 1, 0
ATTENTION = {"W_Q": ("q_proj", READS), "W_K": ("k_proj", READS), "W_V": ("v_proj", READS), "W_O": ("out_proj", MAKES)}
SELF, CROSS = ("attention", "self_attn"), ("cross", "encoder_attn")
NORMS = {"attention": "self_attn_layer_norm", "cross": "encoder_attn_layer_norm", "feedforward": "final_layer_norm"}


@dataclass(frozen=True)
class Weight:
    """One tensor under both names; `axis` is the one that counts the values of a state, None: none does."""

    ours: str
    theirs: str
    axis: int | None


def weights_of(model: EncoderDecoderConfig) -> list[Weight]:
    """All but the tables of tokens, and learnt positions: those have rows there that they lack here."""
    encoder, decoder = model.encoder, model.decoder
    assert isinstance(encoder, TransformerConfig)
    assert isinstance(decoder, TransformerConfig)
    return [*_side("encoder", encoder), *_side("decoder", decoder)]


def to_theirs(weights: dict[str, Tensor], model: EncoderDecoderConfig, order: Tensor) -> dict[str, Tensor]:
    """The same network under their names, the values of a state in this order."""
    named = {weight.theirs: _ordered(weights[weight.ours], weight.axis, order) for weight in weights_of(model)}
    source, target, output = (_ordered(weights[name], 1, order) for name in (SOURCE_TABLE, TARGET_TABLE, OUTPUT))
    bias = {HEAD_BIAS: weights[BIAS].unsqueeze(0)}
    if model.tie == "all":
        return {**named, **bias, SHARED: target}
    tables = {SOURCE_THERE: source, TARGET_THERE: target}
    return {**named, **bias, **tables, **({} if model.tie == "output" else {HEAD: output})}


def to_ours(theirs: dict[str, Tensor], model: EncoderDecoderConfig, order: Tensor) -> dict[str, Tensor]:
    """Back again; KeyError with the name of what is missing. `order` is how they have the values of a state."""
    back = order.argsort()
    named = {weight.ours: _ordered(theirs[weight.theirs], weight.axis, back) for weight in weights_of(model)}
    source, target = (theirs[name if name in theirs else SHARED] for name in (SOURCE_THERE, TARGET_THERE))
    tables = {SOURCE_TABLE: source, TARGET_TABLE: target, OUTPUT: theirs.get(HEAD, target)}
    bias = theirs[HEAD_BIAS].flatten() if HEAD_BIAS in theirs else target.new_zeros(target.size(0))
    return {**named, **{name: _ordered(table, 1, back) for name, table in tables.items()}, BIAS: bias}


def sines_first(size: int) -> Tensor:
    """Positions here are sin, cos, sin, cos, ..; in Marian all sines stand before all cosines.

    A network is the same with the values of its states in another order, if all its weights agree on it.
    """
    return torch.cat([torch.arange(0, size, 2), torch.arange(1, size, 2)])


def _ordered(tensor: Tensor, axis: int | None, order: Tensor) -> Tensor:
    return tensor if axis is None else tensor.index_select(axis, order)


def _side(side: str, part: TransformerConfig) -> Iterator[Weight]:
    if part.embedding_norm:
        yield from _both(f"{side}.embedding_norm", f"model.{side}.layernorm_embedding", MAKES)
    for number in range(part.layers):
        yield from _block(f"{side}.blocks.{number}", f"model.{side}.layers.{number}", cross=side == "decoder")


def _block(ours: str, theirs: str, *, cross: bool) -> Iterator[Weight]:
    for mine, other in (SELF, CROSS) if cross else (SELF,):
        for part, (name, axis) in ATTENTION.items():
            yield from _both(f"{ours}.{mine}.{part}", f"{theirs}.{other}.{name}", axis)
    yield from _both(f"{ours}.feedforward.W_1", f"{theirs}.fc1", READS)
    yield from _both(f"{ours}.feedforward.W_2", f"{theirs}.fc2", MAKES)
    for part, name in NORMS.items():
        if cross or part != "cross":
            yield from _both(f"{ours}.norms.{part}", f"{theirs}.{name}", MAKES)


def _both(ours: str, theirs: str, axis: int) -> Iterator[Weight]:
    """The weight and the bias of a dense layer or of a norm."""
    yield Weight(f"{ours}.weight", f"{theirs}.weight", axis)
    yield Weight(f"{ours}.bias", f"{theirs}.bias", MAKES if axis == MAKES else None)
