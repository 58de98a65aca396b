"""A sub-word tokenizer as a tokenizer.json that `transformers` loads, with the ids of the model."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import decoders, processors

from antiphon.sources.subwords import SubwordTokenizer
from antiphon.sources.tokens import Tokenizer
from antiphon.sources.vocabulary import EOS, SPECIALS, UNK

__all__ = ["tokenizer_files"]


def tokenizer_files(source: Tokenizer, target: Tokenizer, *, longest: int) -> dict[str, dict[str, Any]]:
    """tokenizer.json and tokenizer_config.json; nothing where `transformers` has no such tokenizer.

    It reads and writes with one, so the two sides have to share theirs, and it has no grapheme clusters. Without these
    files the model takes and gives ids: those of tokenizer.source.json and tokenizer.target.json, and </s>.
    """
    if not isinstance(source, SubwordTokenizer) or source.fingerprint != target.fingerprint:
        return {}
    names = {f"{name}_token": special for name, special in zip(("pad", "bos", "eos", "unk"), SPECIALS, strict=True)}
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        **names,
    }
    return {"tokenizer.json": _with_specials(source.content()["model"]), "tokenizer_config.json": about}


def _with_specials(model: dict[str, Any]) -> dict[str, Any]:
    """The inner tokenizer with the four specials before its own pieces, and </s> after every text."""
    added = [_added(number, special) for number, special in enumerate(SPECIALS)]
    end = processors.TemplateProcessing(single=f"$A {SPECIALS[EOS]}", special_tokens=[(SPECIALS[EOS], EOS)])
    spoken = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return {
        **model,
        "added_tokens": added,
        "model": _shifted(model["model"]),
        "post_processor": json.loads(end.__getstate__()),
        "decoder": json.loads(spoken.__getstate__()),
    }


def _shifted(model: dict[str, Any]) -> dict[str, Any]:
    if model["type"] == "BPE":
        own = {piece: number + len(SPECIALS) for piece, number in model["vocab"].items()}
        return {**model, "vocab": {**{special: number for number, special in enumerate(SPECIALS)}, **own}}
    lowest = min(score for _, score in model["vocab"])
    return {**model, "vocab": [*([special, lowest] for special in SPECIALS), *model["vocab"]], "unk_id": UNK}


def _added(number: int, special: str) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": special, "special": True, **plain}
