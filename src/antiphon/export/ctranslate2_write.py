"""Export to CTranslate2, the fastest engine for a Transformer on a CPU."""
# H hidden size

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation
from ctranslate2.specs.model_spec import visit_spec
from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

from antiphon.config.networks import EncoderDecoderConfig, TransformerConfig, learnt_positions
from antiphon.config.schema import Config
from antiphon.data.tokenizers import EOS, SOS, SPECIALS, UNK
from antiphon.errors import UserError
from antiphon.files import write_text
from antiphon.model_folder import LoadedModel
from antiphon.models.layers.blocks import LayerNorm
from antiphon.models.layers.positions import LearntPositions, Positions, SinusoidalPositions
from antiphon.ngrams.shortlist import Shortlist, load_shortlist

__all__ = ["position_counts", "token_names", "transformer_spec", "unsupported", "write"]

# Model: the weights of a Transformer as a CTranslate2 specification.

ACTIVATIONS = {"relu": Activation.RELU, "gelu": Activation.GELU, "swish": Activation.SWISH}
LEAST = 512  # positions of the decoder, so that max_length can be raised after the export
REMEDY = "export it with --to onnx"
# The largest int8 weight. Processors without VNNI add two products in 16 bits, and inputs go up to 255: with 127, as
# CTranslate2 has it, the sums saturate and many models give wrong answers; 2 x 255 x 64 still fits.
LARGEST = 64


def unsupported(config: Config) -> list[str]:
    """A sentence for each part that CTranslate2 does not support."""
    model = config.model
    if not isinstance(model, EncoderDecoderConfig):
        return [f"model.kind: CTranslate2 has encoder-decoders only, not a {model.kind}; {REMEDY}"]
    problems = []
    [encoder] = model.encoders  # several are refused before
    for name, part in (("encoder", encoder), ("decoder", model.decoder)):
        if not isinstance(part, TransformerConfig):
            problems.append(f"model.{name}.kind: CTranslate2 has Transformers only, not {part.kind}; {REMEDY}")
        elif part.norm != "layer":
            problems.append(f"model.{name}.norm: CTranslate2 has layer norms only, not {part.norm} norms; {REMEDY}")
        elif part.positions.kind == "none":
            problems.append(f"model.{name}.positions: CTranslate2 has no Transformer without them; {REMEDY}")
    if encoder.ngrams:
        problems.append(f"model.encoder.ngrams: CTranslate2 has no vectors of n-grams; {REMEDY}")
    return problems


def position_counts(config: Config) -> dict[str, int]:
    """The number of positions of encoder and decoder; a learnt table has its own size.

    A source is truncated to data.source.max_length, so the encoder needs that many and one for </s>.
    """
    source, target = config.data.text, config.data.target
    assert isinstance(config.model, EncoderDecoderConfig)
    assert source is not None
    longest = {
        "encoder": source.max_length + 1,
        "decoder": max(target.max_length + 1, config.decoding.max_length, LEAST),
    }
    for name, part in (("encoder", config.model.encoder), ("decoder", config.model.decoder)):
        if isinstance(part, TransformerConfig):
            longest[name] = learnt_positions(part) or longest[name]
    return longest


def token_names(size: int) -> list[str]:
    """The tokens as CTranslate2 knows them: the specials by name, the others by id."""
    return [*SPECIALS, *map(str, range(len(SPECIALS), size))]


def transformer_spec(loaded: LoadedModel, *, int8: bool) -> Any:  # noqa: ANN401 (CTranslate2 has no types)
    """The whole model, ready to be saved: weights, vocabularies and special tokens."""
    model: Any = loaded.model
    config: Any = loaded.config.model
    weights = {name: tensor.float().numpy() for name, tensor in model.state_dict().items()}
    spec = TransformerSpec(_encoder(config.encoder, weights), _decoder(config.decoder, weights))
    for part, longest in position_counts(loaded.config).items():
        getattr(spec, part).position_encodings.encodings = _table(getattr(model, part).positions, longest)
    spec.register_source_vocabulary(token_names(loaded.source_tokenizer.size))
    spec.register_target_vocabulary(token_names(loaded.target_tokenizer.size))
    spec.config.bos_token = spec.config.decoder_start_token = SPECIALS[SOS]
    spec.config.eos_token, spec.config.unk_token = SPECIALS[EOS], SPECIALS[UNK]
    spec.config.add_source_eos = True
    spec.config.add_attribute("layer_norm_epsilon", LayerNorm(1).eps)
    if int8:
        visit_spec(spec, _quantize)
    spec.validate()
    spec.optimize()  # saves tied weights once
    return spec


def _table(positions: Positions, longest: int) -> np.ndarray:
    """Position vectors [positions, H]; written out, because CTranslate2 orders sines and cosines differently."""
    if isinstance(positions, SinusoidalPositions):
        return positions.table(longest).float().numpy()
    assert isinstance(positions, LearntPositions)
    return positions.table.weight.detach().float().numpy()


def _encoder(config: TransformerConfig, weights: dict[str, np.ndarray]) -> Any:  # noqa: ANN401
    spec = _blocks(TransformerEncoderSpec, weights, "encoder", config)
    spec.embeddings[0].weight = weights["source.embedding.table.weight"]
    return spec


def _decoder(config: TransformerConfig, weights: dict[str, np.ndarray]) -> Any:  # noqa: ANN401
    spec = _blocks(TransformerDecoderSpec, weights, "decoder", config)
    spec.embeddings.weight = weights["decoder.embedding.table.weight"]
    for number, block in enumerate(spec.layer):
        name = f"decoder.blocks.{number}"
        query, memory, output = block.attention.linear
        _dense(query, weights, f"{name}.cross.W_Q")
        _dense(memory, weights, f"{name}.cross.W_K", f"{name}.cross.W_V")
        _dense(output, weights, f"{name}.cross.W_O")
        _norm(block.attention.layer_norm, weights, f"{name}.norms.cross")
    _dense(spec.projection, weights, "decoder.output")
    return spec


def _blocks(kind: Any, weights: dict[str, np.ndarray], side: str, config: TransformerConfig) -> Any:  # noqa: ANN401
    """The parts that encoder and decoder share: scale √d, embedding norm, blocks, final norm of pre-norm."""
    activation, norm = ACTIVATIONS[config.activation], config.embedding_norm
    pre = config.order == "pre"
    spec = kind(config.layers, config.heads, pre_norm=pre, activation=activation, layernorm_embedding=norm)
    spec.scale_embeddings = config.scale
    if norm:
        _norm(spec.layernorm_embedding, weights, f"{side}.embedding_norm")
    for number, block in enumerate(spec.layer):
        name = f"{side}.blocks.{number}"
        joined, output = block.self_attention.linear
        _dense(joined, weights, *(f"{name}.attention.{part}" for part in ("W_Q", "W_K", "W_V")))
        _dense(output, weights, f"{name}.attention.W_O")
        _norm(block.self_attention.layer_norm, weights, f"{name}.norms.attention")
        _dense(block.ffn.linear_0, weights, f"{name}.feedforward.W_1")
        _dense(block.ffn.linear_1, weights, f"{name}.feedforward.W_2")
        _norm(block.ffn.layer_norm, weights, f"{name}.norms.feedforward")
    if pre:
        _norm(spec.layer_norm, weights, f"{side}.norm")
    return spec


def _dense(spec: Any, weights: dict[str, np.ndarray], *layers: str) -> None:  # noqa: ANN401
    """A dense layer, or several layers of the same input concatenated."""
    spec.weight = np.concatenate([weights[f"{name}.weight"] for name in layers])
    spec.bias = np.concatenate([weights[f"{name}.bias"] for name in layers])


def _norm(spec: Any, weights: dict[str, np.ndarray], name: str) -> None:  # noqa: ANN401
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _quantize(layer: Any, name: str, value: Any) -> None:  # noqa: ANN401
    """w ≈ q / scale with an int8 q and one scale for each row."""
    if name.endswith("/weight"):
        largest = np.abs(value).max(axis=1)
        scale = LARGEST / np.where(largest > 0, largest, 1)
        layer.weight = np.rint(value * scale[:, None]).astype(np.int8)
        layer.weight_scale = scale.astype(np.float32)


# Folder: the model and the shortlist.

VOCABULARY_MAP = "vmap.txt"
NOTES = [
    "a beam of CTranslate2 stays full until as many hypotheses as it is wide have ended (patience 1), while the beam "
    "of a run shrinks; a run with patience 1 does the same"
]


def write(loaded: LoadedModel, folder: Path, int8: bool) -> dict[str, Any]:
    """Write model.bin, config.json and vocabularies, which CTranslate2 reads without Antiphon, too."""
    if problems := unsupported(loaded.config):
        raise UserError(problems)
    transformer_spec(loaded, int8=int8).save(str(folder))
    sizes = {"source_tokens": loaded.source_tokenizer.size, "target_tokens": loaded.target_tokenizer.size}
    shortlist = None if loaded.folder is None else load_shortlist(loaded.folder, **sizes)
    if shortlist is not None:
        write_text(folder / VOCABULARY_MAP, vocabulary_map(shortlist))
    facts = {"positions": position_counts(loaded.config)["decoder"], "int8": int8}
    return {**facts, "shortlist": shortlist is not None, "notes": NOTES}


def vocabulary_map(shortlist: Shortlist) -> str:
    """A line of candidates for each source token; the first line, of no token, has those of every sentence."""
    highest = max(int(tokens.max(initial=0)) for tokens in (shortlist.tokens, shortlist.always))
    source, target = token_names(len(shortlist.offsets) - 1), token_names(highest + 1)
    lists = [("", shortlist.always), *((source[token], shortlist.alone(token)) for token in range(len(source)))]
    return "".join(f"{name}\t{' '.join(target[token] for token in tokens)}\n" for name, tokens in lists if len(tokens))
