"""The weights of Marian and BART folders of `transformers`: their files, and their names here and there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from antiphon.config.networks import DecoderConfig, EncoderDecoderConfig, TransformerConfig
from antiphon.data.tokenizers import SOS
from antiphon.errors import ModelFolderError
from antiphon.export.huggingface_architecture import Architecture, read_json
from antiphon.export.huggingface_tokenizers import ImportedTokenizer

__all__ = [
    "OUTPUT", "SOURCE_TABLE", "TARGET_TABLE", "convert_weights", "from_huggingface", "read_weights", "reorder_rows",
    "to_huggingface", "unused_weights",
]  # fmt: skip

SOURCE_TABLE, TARGET_TABLE = "source.embedding.table.weight", "decoder.embedding.table.weight"
OUTPUT, OUTPUT_BIAS = "decoder.output.weight", "decoder.output.bias"
# In `transformers`; Marian and BART have the same names.
HF_SHARED_TABLE, HF_OUTPUT, HF_OUTPUT_BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
HF_SOURCE_TABLE, HF_TARGET_TABLE = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
POSITIONS = {
    f"{side}.positions.table.weight": f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")
}
# The axis of a weight along the hidden state: its columns if the layer reads a state, its rows if it writes one.
READS, WRITES = 1, 0
ATTENTION = {"W_Q": ("q_proj", READS), "W_K": ("k_proj", READS), "W_V": ("v_proj", READS), "W_O": ("out_proj", WRITES)}
SELF, CROSS = ("attention", "self_attn"), ("cross", "encoder_attn")
NORMS = {"attention": "self_attn_layer_norm", "cross": "encoder_attn_layer_norm", "feedforward": "final_layer_norm"}


@dataclass(frozen=True)
class WeightName:
    """The two names of a tensor; `axis` runs along the hidden state, None if no axis does."""

    ours: str
    huggingface: str
    axis: int | None


def weight_names(model: EncoderDecoderConfig) -> list[WeightName]:
    """All weights but embeddings, output layer and learnt positions, whose rows differ."""
    encoder, decoder = model.encoder, model.decoder
    assert isinstance(encoder, TransformerConfig)
    assert isinstance(decoder, TransformerConfig)
    return [*_side("encoder", encoder), *_side("decoder", decoder)]


def to_huggingface(weights: dict[str, Tensor], model: EncoderDecoderConfig) -> dict[str, Tensor]:
    """Weights under the names of `transformers`, with the hidden state in its order."""
    order = _state_order(model.decoder)
    named = {weight.huggingface: _permuted(weights[weight.ours], weight.axis, order) for weight in weight_names(model)}
    source, target, output = (_permuted(weights[name], 1, order) for name in (SOURCE_TABLE, TARGET_TABLE, OUTPUT))
    bias = {HF_OUTPUT_BIAS: weights[OUTPUT_BIAS].unsqueeze(0)}
    if model.tie == "all":
        return {**named, **bias, HF_SHARED_TABLE: target}
    tables = {HF_SOURCE_TABLE: source, HF_TARGET_TABLE: target}
    return {**named, **bias, **tables, **({} if model.tie == "output" else {HF_OUTPUT: output})}


def from_huggingface(theirs: dict[str, Tensor], model: EncoderDecoderConfig) -> dict[str, Tensor]:
    """The inverse of `to_huggingface`; KeyError names a missing weight."""
    inverse = _state_order(model.decoder).argsort()
    named = {weight.ours: _permuted(theirs[weight.huggingface], weight.axis, inverse) for weight in weight_names(model)}
    shared = HF_SHARED_TABLE
    source, target = (theirs[name if name in theirs else shared] for name in (HF_SOURCE_TABLE, HF_TARGET_TABLE))
    tables = {SOURCE_TABLE: source, TARGET_TABLE: target, OUTPUT: theirs.get(HF_OUTPUT, target)}
    bias = theirs[HF_OUTPUT_BIAS].flatten() if HF_OUTPUT_BIAS in theirs else target.new_zeros(target.size(0))
    return {**named, **{name: _permuted(table, 1, inverse) for name, table in tables.items()}, OUTPUT_BIAS: bias}


def _state_order(decoder: DecoderConfig) -> Tensor:
    """The order of the hidden state in `transformers`.

    Sinusoidal positions here are sin, cos, sin, cos, …; Marian has all sines before all cosines. A network stays the
    same when its hidden state is permuted, if all its weights are permuted alike.
    """
    assert isinstance(decoder, TransformerConfig)
    order = torch.arange(decoder.size)
    return torch.cat([order[::2], order[1::2]]) if decoder.positions.kind == "sinusoidal" else order


def _permuted(tensor: Tensor, axis: int | None, order: Tensor) -> Tensor:
    return tensor if axis is None else tensor.index_select(axis, order)


def _side(side: str, part: TransformerConfig) -> Iterator[WeightName]:
    if part.embedding_norm:
        yield from _both(f"{side}.embedding_norm", f"model.{side}.layernorm_embedding", WRITES)
    for number in range(part.layers):
        yield from _block(f"{side}.blocks.{number}", f"model.{side}.layers.{number}", cross=side == "decoder")


def _block(ours: str, theirs: str, *, cross: bool) -> Iterator[WeightName]:
    for mine, other in (SELF, CROSS) if cross else (SELF,):
        for part, (name, axis) in ATTENTION.items():
            yield from _both(f"{ours}.{mine}.{part}", f"{theirs}.{other}.{name}", axis)
    yield from _both(f"{ours}.feedforward.W_1", f"{theirs}.fc1", READS)
    yield from _both(f"{ours}.feedforward.W_2", f"{theirs}.fc2", WRITES)
    for part, name in NORMS.items():
        if cross or part != "cross":
            yield from _both(f"{ours}.norms.{part}", f"{theirs}.{name}", WRITES)


def _both(ours: str, theirs: str, axis: int) -> Iterator[WeightName]:
    """The weight and the bias of a dense layer or of a norm."""
    yield WeightName(f"{ours}.weight", f"{theirs}.weight", axis)
    yield WeightName(f"{ours}.bias", f"{theirs}.bias", WRITES if axis == WRITES else None)


# Files, and the steps of an import.

WEIGHTS, INDEX, PICKLE = "model.safetensors", "model.safetensors.index.json", "pytorch_model*.bin"
NEVER = -1000.0  # the logit of a token that is only read: its probability is 0 in every state
BART_OFFSET = 2  # rows of BART's position table before position 0
LISTED = 5  # weights named in a message; the others are counted


def read_weights(folder: Path, architecture: Architecture) -> dict[str, Tensor]:
    """Weights in float32, of one file or of several with an index."""
    names = _weight_files(folder)
    if not (folder / names[0]).is_file() and (pickle := next(folder.glob(PICKLE), None)):
        raise ModelFolderError(
            f"{pickle}: a pickle, which can run any code when it is read; if you trust it, "
            f"`AutoModelForSeq2SeqLM.from_pretrained({str(folder)!r}).save_pretrained('OTHER')` of transformers makes "
            f"{WEIGHTS}"
        )
    weights: dict[str, Tensor] = {}
    for name in names:
        try:
            weights |= load_file(folder / name)
        except (OSError, SafetensorError) as error:
            raise ModelFolderError(f"{folder / name}: cannot be read ({error}); copy the whole folder") from error
    base = any(name.startswith("encoder.layers.") for name in weights)  # saved without its output layer
    weights = {f"model.{name}" if base else name: tensor.float() for name, tensor in weights.items()}
    return _without_tied_copies(weights, architecture)


def _weight_files(folder: Path) -> list[str]:
    """The files of the weights. An index may only name files beside it."""
    if (folder / WEIGHTS).is_file() or not (folder / INDEX).is_file():
        return [WEIGHTS]
    table = read_json(folder / INDEX).get("weight_map")
    names = list(table.values()) if isinstance(table, dict) else []
    if not names or any(not isinstance(name, str) or Path(name).name != name for name in names):
        raise ModelFolderError(f"{folder / INDEX}: its weight_map does not name files beside it; copy it again")
    return sorted(set(names))


def _without_tied_copies(theirs: dict[str, Tensor], architecture: Architecture) -> dict[str, Tensor]:
    """Drop the copies of tied tables that some files have; `transformers` ignores them, too."""
    tied, shared = architecture.tie_word_embeddings, architecture.share_encoder_decoder_embeddings
    copies = {HF_OUTPUT} if tied else set()
    if tied and shared and HF_SHARED_TABLE in theirs:
        copies |= {HF_SOURCE_TABLE, HF_TARGET_TABLE}
    return {name: tensor for name, tensor in theirs.items() if name not in copies}


def convert_weights(folder: Path, theirs: dict[str, Tensor], architecture: Architecture) -> dict[str, Tensor]:
    """Their weights under our names."""
    try:
        weights = from_huggingface(theirs, architecture.model("none"))
        if architecture.learnt_positions:
            for ours, huggingface in POSITIONS.items():
                weights[ours] = theirs[huggingface][BART_OFFSET:]
        if len({weights[name].size(0) for name in (TARGET_TABLE, OUTPUT, OUTPUT_BIAS)}) > 1:
            raise IndexError("the target's table, the output layer and its bias have unlike numbers of rows")
    except (KeyError, IndexError, RuntimeError) as error:
        raise ModelFolderError(
            f"{folder}: its weights are not those of its config.json ({error}); copy the whole folder again"
        ) from error
    return weights


def unused_weights(theirs: dict[str, Tensor], architecture: Architecture) -> list[str]:
    """A note on weights that the model does not need, such as a classifier; sinusoidal positions are recomputed."""
    used = {weight.huggingface for weight in weight_names(architecture.model("none"))}
    used |= {HF_SHARED_TABLE, HF_OUTPUT, HF_OUTPUT_BIAS, HF_SOURCE_TABLE, HF_TARGET_TABLE, *POSITIONS.values()}
    unused = sorted(name for name in theirs if name not in used)
    more = f", and {len(unused) - LISTED} more" if len(unused) > LISTED else ""
    return [f"left out: {', '.join(unused[:LISTED])}{more}"] if unused else []


def reorder_rows(weights: dict[str, Tensor], source: ImportedTokenizer, target: ImportedTokenizer) -> dict[str, Tensor]:
    """Put the rows of all tables into the order of our ids. A start token that is a copy is never generated."""
    bias = weights[OUTPUT_BIAS][target.rows]
    if target.start_is_copy:
        bias[SOS] = NEVER
    tables = {name: weights[name][target.rows] for name in (TARGET_TABLE, OUTPUT)}
    return {**weights, SOURCE_TABLE: weights[SOURCE_TABLE][source.rows], **tables, OUTPUT_BIAS: bias}
