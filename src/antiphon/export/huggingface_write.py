"""Export to Hugging Face: a folder of the Marian architecture, which `transformers` loads.

Writing it does not need `transformers`. Marian is a post-norm Transformer with sinusoidal positions; other models are
refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save
from tokenizers import decoders, processors

from antiphon.config.networks import EncoderDecoderConfig, ModelConfig, TransformerConfig
from antiphon.config.schema import Config
from antiphon.data.subwords import SubwordTokenizer
from antiphon.data.tokenizers import EOS, PAD, SOS, SPECIALS, UNK, NormalizingTokenizer, TextForm, Tokenizer
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.base import ExportFolder
from antiphon.export.huggingface_weights import from_huggingface, to_huggingface
from antiphon.files import to_json, write_bytes, write_text
from antiphon.model_folder import LoadedModel, load_weights
from antiphon.models.build import build_model

__all__ = ["load", "tokenizer_files", "write"]

# Tokenizer: a sub-word tokenizer as tokenizer.json, with the ids of the model.


def tokenizer_files(source: Tokenizer, target: Tokenizer, *, longest: int) -> dict[str, dict[str, Any]]:
    """tokenizer.json and tokenizer_config.json; an empty dict if `transformers` has no such tokenizer.

    It uses one tokenizer for both sides and knows no grapheme clusters. Without these files the model takes and returns
    ids: those of tokenizer.source.json and tokenizer.target.json, and </s>.
    """
    plain = source.inner if isinstance(source, NormalizingTokenizer) else source
    if not isinstance(plain, SubwordTokenizer) or source.fingerprint != target.fingerprint:
        return {}
    form = source.form if isinstance(source, NormalizingTokenizer) else TextForm()
    names = {f"{name}_token": special for name, special in zip(("pad", "bos", "eos", "unk"), SPECIALS, strict=True)}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        **names,
    }
    return {"tokenizer.json": _with_specials(plain.content()["model"], form), "tokenizer_config.json": settings}


def _with_specials(model: dict[str, Any], form: TextForm) -> dict[str, Any]:
    """The tokenizer with the four specials before its own pieces, and </s> after every text."""
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": number, "content": name, "special": True, **plain} for number, name in enumerate(SPECIALS)]
    end = processors.TemplateProcessing(single=f"$A {SPECIALS[EOS]}", special_tokens=[(SPECIALS[EOS], EOS)])
    decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return {
        **model,
        "normalizer": _normalizer(model["normalizer"], form),
        "added_tokens": added,
        "model": _shifted(model["model"]),
        "post_processor": json.loads(end.__getstate__()),
        "decoder": json.loads(decoder.__getstate__()),
    }


def _normalizer(last: dict[str, Any], form: TextForm) -> dict[str, Any]:
    """The form of the texts, then the normaliser that every tokenizer has."""
    kinds = {"nfc": [{"type": "NFC"}], "nfkc": [{"type": "NFKC"}], None: []}
    normalization = kinds[form.normalization]
    steps = [*normalization, *([{"type": "Lowercase"}, *normalization] if form.lowercase else []), last]
    return {"type": "Sequence", "normalizers": steps} if len(steps) > 1 else last


def _shifted(model: dict[str, Any]) -> dict[str, Any]:
    """The same pieces, their ids shifted by the number of specials."""
    if model["type"] == "BPE":
        own = {piece: number + len(SPECIALS) for piece, number in model["vocab"].items()}
        return {**model, "vocab": {**{special: number for number, special in enumerate(SPECIALS)}, **own}}
    lowest = min(score for _, score in model["vocab"])
    return {**model, "vocab": [*([special, lowest] for special in SPECIALS), *model["vocab"]], "unk_id": UNK}


# Model: weights, architecture and search settings.

POSITIONS = 1024  # the least size of Marian's table of sines, which is computed when the model is loaded
BEAM = (
    "a beam of `transformers` stays full until as many hypotheses as it is wide have ended (early_stopping), while the "
    "beam of a run shrinks; a run with patience 1 does the same"
)
IDS_ONLY = (
    "no tokenizer.json: `transformers` has one sub-word tokenizer for both sides; there this model takes and returns "
    "ids, those of tokenizer.source.json and tokenizer.target.json, with </s> (2) after a source"
)
IDS = {"pad_token_id": PAD, "bos_token_id": SOS, "eos_token_id": EOS, "decoder_start_token_id": SOS}


def write(loaded: LoadedModel, folder: Path, int8: bool) -> dict[str, Any]:  # noqa: ARG001 (refused before)
    """Write config.json, generation_config.json, model.safetensors and, for one sub-word vocabulary, tokenizer.json."""
    config, model = loaded.config, _require_marian(loaded.config.model)
    weights = to_huggingface(loaded.model.state_dict(), model)
    content = save({name: tensor.detach().contiguous() for name, tensor in weights.items()}, metadata={"format": "pt"})
    write_bytes(folder / "model.safetensors", content)
    source, target = loaded.source_tokenizer, loaded.target_tokenizer
    sizes = {"vocab_size": source.size, "decoder_vocab_size": target.size}
    write_text(folder / "config.json", to_json({**_architecture(config, model), **sizes}))
    write_text(folder / "generation_config.json", to_json(_generation(config)))
    files = tokenizer_files(source, target, longest=_longest(config))
    for name, table in files.items():
        write_text(folder / name, to_json(table))
    return {"architecture": "marian", "notes": [BEAM] if files else [BEAM, IDS_ONLY]}


def load(export: ExportFolder) -> LoadedModel:
    """Load the network; torch computes it as it does a run."""
    config = export.config
    model = build_model(config.model, source_tokens=export.source.size, target_tokens=export.target.size)
    try:
        weights = from_huggingface(load_weights(export.path), _require_marian(config.model))
        model.load_state_dict(weights)
    except (KeyError, IndexError, RuntimeError) as error:
        fact = "its weights are not those of its config.yaml"
        raise ModelFolderError(f"{export.path}: {fact}; export it again") from error
    return LoadedModel(config, model.eval(), export.source, export.target)


def _require_marian(model: ModelConfig) -> EncoderDecoderConfig:
    """The same configuration, or a UserError with every difference from Marian."""
    if not isinstance(model, EncoderDecoderConfig):
        raise UserError(f"model.kind: {model.kind} has no encoder, and Marian is an encoder-decoder; export to onnx")
    [encoder], decoder = model.encoders, model.decoder  # several are refused before
    if not isinstance(encoder, TransformerConfig) or not isinstance(decoder, TransformerConfig):
        kinds = f"{encoder.kind} and {decoder.kind}"
        raise UserError(f"model: its parts are {kinds}, and Marian is a Transformer on both sides; export to onnx")
    sides = (("encoder", encoder), ("decoder", decoder))
    required = {"order": "post", "norm": "layer", "positions": "sinusoidal", "embedding_norm": False}
    problems = [
        f"model.{name}.{key}: {getattr(value, 'kind', value)}, but Marian has only {usual}"
        for name, side in sides
        for key, usual in required.items()
        if getattr(value := getattr(side, key), "kind", value) != usual
    ]
    problems += [
        f"model.encoder.{key}: {getattr(encoder, key)}, but the decoder has {getattr(decoder, key)} and Marian only one"
        for key in ("size", "activation", "scale")
        if getattr(encoder, key) != getattr(decoder, key)
    ]
    if encoder.ngrams:
        problems.append(f"model.encoder.ngrams: {encoder.ngrams.lengths}, but Marian reads tokens only")
    if problems:
        raise UserError([f"{problem}; export to onnx, or train a model that has it" for problem in problems])
    return model


def _longest(config: Config) -> int:
    """The number of positions: the longest source with </s>, or the longest target with <s>."""
    source = config.data.text.max_length if config.data.text else 0
    return max(POSITIONS, source + 1, config.data.target.max_length + 1, config.decoding.max_length + 1)


def _architecture(config: Config, model: EncoderDecoderConfig) -> dict[str, Any]:
    encoder: Any = model.encoder
    decoder: Any = model.decoder
    dropout = {f"{place}dropout": encoder.dropout for place in ("", "attention_", "activation_")}
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "d_model": encoder.size,
        "encoder_layers": encoder.layers,
        "encoder_attention_heads": encoder.heads,
        "encoder_ffn_dim": encoder.feedforward,
        "decoder_layers": decoder.layers,
        "decoder_attention_heads": decoder.heads,
        "decoder_ffn_dim": decoder.feedforward,
        "activation_function": encoder.activation,
        "scale_embedding": encoder.scale,
        **dropout,
        "max_position_embeddings": _longest(config),
        "is_encoder_decoder": True,
        "share_encoder_decoder_embeddings": model.tie == "all",
        "tie_word_embeddings": model.tie in ("output", "all"),
        **IDS,
        "forced_eos_token_id": None,  # Marian's default is 0, which is padding here
        "dtype": "float32",
    }


def _generation(config: Config) -> dict[str, Any]:
    """The `decoding` section; tokens that a run never generates are suppressed."""
    decoding = config.decoding
    beam = {"num_beams": decoding.beam, "length_penalty": decoding.length_penalty, "early_stopping": True}
    return {
        **IDS,
        "suppress_tokens": [PAD, SOS, UNK],
        "forced_eos_token_id": None,
        "max_length": decoding.max_length + 1,  # `transformers` counts the <s> at the start
        **(beam if decoding.beam > 1 else {}),
    }
