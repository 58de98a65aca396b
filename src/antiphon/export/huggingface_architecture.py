"""Marian and BART folders of `transformers`: what their config.json says, and what their weights are called."""
# V vocabulary, H state, F inner size

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt, ValidationError
from torch import Tensor

from antiphon.config.networks import EncoderDecoderConfig, TransformerConfig
from antiphon.errors import ModelFolderError

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
    "Architecture",
    "Generation",
    "Weight",
    "read_architecture",
    "read_generation",
    "read_json",
    "sines_first",
    "to_ours",
    "to_theirs",
    "weights_of",
]

# The defaults of MarianConfig and BartConfig that differ; older files leave out what is usual.
USUAL: dict[str, dict[str, int]] = {
    "marian": {"pad_token_id": 58100, "eos_token_id": 0, "decoder_start_token_id": 58100},
    "bart": {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2},
}
RELATIVES = ("mbart", "m2m_100", "blenderbot", "blenderbot-small", "pegasus", "plbart")  # pre-norm, or other positions
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
# Settings of a search that a model does not keep here: what is usual there, and what to give instead.
NOT_KEPT: dict[str, tuple[Any, str]] = {
    "min_length": (0, "`antiphon generate` has --min-length"),
    "no_repeat_ngram_size": (0, "`antiphon generate` has --no-repeat"),
    "early_stopping": (False, "true is --patience 1 of `antiphon generate`"),
    "do_sample": (False, "`antiphon generate` has --sample"),
    "repetition_penalty": (1.0, "there is no such thing here"),
    "forced_bos_token_id": (None, "a trained model says it by itself"),
}


class Architecture(BaseModel):
    """The keys of config.json that decide what is computed."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    model_type: Literal["marian", "bart"]
    d_model: PositiveInt = 1024
    encoder_layers: PositiveInt = 12
    encoder_attention_heads: PositiveInt = 16
    encoder_ffn_dim: PositiveInt = 4096
    decoder_layers: PositiveInt = 12
    decoder_attention_heads: PositiveInt = 16
    decoder_ffn_dim: PositiveInt = 4096
    activation_function: Literal["relu", "gelu", "swish", "silu"] = "gelu"
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    max_position_embeddings: int = Field(1024, ge=2)  # a token and </s>
    scale_embedding: bool = False
    tie_word_embeddings: bool = True
    share_encoder_decoder_embeddings: bool = True
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int

    @property
    def learnt_positions(self) -> bool:
        return self.model_type == "bart"

    def model(self, tie: str) -> EncoderDecoderConfig:
        """The same network here."""
        return EncoderDecoderConfig.model_validate(
            {"encoder": self._side("encoder"), "decoder": self._side("decoder"), "tie": tie}
        )

    def _side(self, side: Literal["encoder", "decoder"]) -> dict[str, Any]:
        """BART norms what enters the first block and has learnt its positions."""
        learnt = {"positions": "learnt", "longest": self.max_position_embeddings, "embedding_norm": True}
        return {
            "kind": "transformer",
            "size": self.d_model,
            "layers": getattr(self, f"{side}_layers"),
            "heads": getattr(self, f"{side}_attention_heads"),
            "feedforward": getattr(self, f"{side}_ffn_dim"),
            "order": "post",
            "activation": ACTIVATIONS[self.activation_function],
            "scale": self.scale_embedding,
            "dropout": self.dropout,
            **(learnt if self.learnt_positions else {}),
        }


class Generation(BaseModel):
    """How `transformers` would search for an answer."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    num_beams: PositiveInt = 1
    length_penalty: FiniteFloat = 1.0
    max_length: PositiveInt | None = None
    unused: dict[str, Any] = {}

    def notes(self) -> list[str]:
        """A sentence for each setting that is not kept."""
        return [f"{key}: {value} is not kept; {NOT_KEPT[key][1]}" for key, value in self.unused.items()]


def read_architecture(folder: Path) -> Architecture:
    """From config.json, and the ids from generation_config.json where it has them, as `transformers` does."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise ModelFolderError(f"{folder}: no such folder; give one that `transformers` has saved")
    content = read_json(path)
    kind = content.get("model_type")
    if not isinstance(kind, str) or kind not in USUAL:
        relative = ", a relative of BART with other norms or positions" if kind in RELATIVES else ""
        raise ModelFolderError(f"{path}: model_type {kind!r}{relative}; only {' and '.join(USUAL)} can be imported")
    given = {key: value for key, value in content.items() if value is not None}
    ids = {key: value for key, value in _generation(folder).items() if key in USUAL[kind] and value is not None}
    return _valid(path, {**USUAL[kind], **given, **ids})


def read_generation(folder: Path) -> Generation:
    """generation_config.json; older folders have these keys in config.json."""
    older, newer = read_json(folder / "config.json"), _generation(folder)
    content = {**older, **newer}
    given = {key: value for key, value in content.items() if value is not None}
    unused = {key: given[key] for key, (usual, _) in NOT_KEPT.items() if given.get(key, usual) != usual}
    try:
        return Generation.model_validate({**given, "unused": unused})
    except ValidationError as error:
        raise _refused(folder / ("generation_config.json" if newer else "config.json"), error) from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ModelFolderError(f"{path}: cannot be read ({error.strerror}); copy the whole folder") from error
    except ValueError as error:
        raise ModelFolderError(f"{path}: not JSON ({error}); copy it again") from error
    if not isinstance(content, dict):
        raise ModelFolderError(f"{path}: not a JSON object; copy it again")
    return content


def _generation(folder: Path) -> dict[str, Any]:
    path = folder / "generation_config.json"
    return read_json(path) if path.is_file() else {}


def _valid(path: Path, content: dict[str, Any]) -> Architecture:
    try:
        return Architecture.model_validate(content)
    except ValidationError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: ValidationError) -> ModelFolderError:
    return ModelFolderError(
        [
            f"{path}: {'.'.join(map(str, one['loc']))}: {one['input']!r} cannot be imported ({one['msg']})"
            for one in error.errors()
        ]
    )


# The weights of a Transformer by their names here and in `transformers`, where Marian and BART share one naming.

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
