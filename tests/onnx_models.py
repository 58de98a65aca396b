"""Small models with large random weights for the exports to ONNX, and 200 texts that each answers in its own way."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch

from antiphon.config.schema import Config
from antiphon.data.tokenizers import EOS, CharacterTokenizer, Tokenizer, WordTokenizer
from antiphon.model_folder import save_model
from antiphon.models.build import build_model
from antiphon.models.model import SequenceModel

__all__ = ["MODELS", "PROMPTS", "SOURCE", "TARGET", "TEXTS", "stirred_folder"]

SOURCE, TARGET = CharacterTokenizer("abcdefgh"), WordTokenizer(list("KLMNO"))
LONGEST = 9


def sentences(letters: str, between: str) -> list[str]:
    """200 of unequal length, no two alike."""
    drawn, texts = random.Random(1), dict[str, None]()
    while len(texts) < 200:
        texts[between.join(drawn.choices(letters, k=drawn.randint(1, LONGEST)))] = None
    return list(texts)


TEXTS, PROMPTS = sentences("abcdefgh", ""), sentences("KLMNO", " ")


def encoder(kind: str, **values: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"kind": kind, "embedding": 6, "size": 4, "dropout": 0.0, **values}


def decoder(kind: str, cell: str, **values: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"kind": kind, "cell": cell, "embedding": 6, "size": 8, "dropout": 0.0, **values}


def blocks(order: str, positions: str, **values: Any) -> dict[str, Any]:  # noqa: ANN401
    sizes = {"size": 8, "heads": 2, "feedforward": 8, "layers": 2, "dropout": 0.0}
    table = {"kind": "learnt", "longest": 40} if positions == "learnt" else positions
    return {"kind": "transformer", "order": order, "positions": table, **sizes, **values}


def attention(score: str, alignment: str = "soft") -> dict[str, Any]:
    return {"kind": "attention", "score": score, "alignment": alignment}


# Every encoder, decoder, cell, score and alignment, both orders, norms and positions, every kind of model.
MODELS: dict[str, dict[str, Any]] = {
    "lstm-bahdanau": {
        "encoder": encoder("lstm", layers=3, residual=True),
        "context": attention("additive"),
        "decoder": decoder("bahdanau", "lstm"),
    },
    "gru-luong-hard": {
        "encoder": encoder("gru"),
        "context": attention("dot", "hard"),
        "decoder": decoder("luong", "gru", layers=2),
    },
    "rnn-luong-fed": {
        "encoder": encoder("rnn", size=8, bidirectional=False),
        "context": attention("concat"),
        "decoder": decoder("luong", "rnn", input_feeding=True),
    },
    "relu-bahdanau": {
        "encoder": encoder("rnn-relu", ngrams={"lengths": [3], "rows": 13}),
        "context": attention("cosine"),
        "decoder": decoder("bahdanau", "rnn-relu", layers=2),
    },
    "cnn-luong": {
        "encoder": encoder("cnn", size=8, layers=2, positions={"kind": "learnt", "longest": 40}),
        "context": attention("scaled-dot"),
        "decoder": decoder("luong", "lstm"),
    },
    "transformer-luong": {
        "encoder": blocks("pre", "sinusoidal"),
        "context": attention("bilinear"),
        "decoder": decoder("luong", "gru", embedding=8),
        "tie": "output",
    },
    "lstm-plain": {
        "encoder": encoder("lstm", layers=2),
        "context": {"kind": "mean", "feed": "every-step"},
        "decoder": decoder("plain", "lstm"),
    },
    "cnn-plain": {
        "encoder": encoder("cnn", size=8, layers=2),
        "context": {"kind": "max", "feed": "both", "bridge": "direct"},
        "decoder": decoder("plain", "gru"),
    },
    "gru-transformer": {"encoder": encoder("gru"), "decoder": blocks("post", "learnt", activation="gelu")},
    "transformer": {
        "encoder": blocks("post", "learnt", scale=False, embedding_norm=True),
        "decoder": blocks("pre", "sinusoidal", norm="batch"),
    },
    "rnn-lm": {"kind": "language-model", "decoder": decoder("plain", "gru", layers=2)},
    "transformer-lm": {"kind": "language-model", "decoder": blocks("pre", "sinusoidal")},
    "rnn-concatenated": {"kind": "concatenated", "decoder": decoder("plain", "lstm", layers=2)},
    "transformer-concatenated": {"kind": "concatenated", "decoder": blocks("pre", "learnt")},
}


def configured(kind: str) -> Config:
    target = {"tokens": "words", "max_length": 18}
    sides = {"target": {**target, "column": 1}, "source": {"tokens": "characters", "max_length": 18, "column": 0}}
    if kind.endswith("-lm"):
        sides = {"target": {**target, "column": 0}}
    model = {"kind": "encoder-decoder", **MODELS[kind]}
    decoding = {"beam": 1, "max_length": 8}
    metrics = {"evaluation": {"metrics": ["loss"]}} if kind.endswith("-lm") else {}
    return Config.model_validate({"data": {"train": "a.tsv", **sides}, "model": model, "decoding": decoding, **metrics})


def stir(model: SequenceModel) -> None:
    """With larger weights, a network that has learnt nothing answers each source in its own way."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name:
                parameter.normal_(std=0.3)
            elif "embedding" in name or "output" in name:
                parameter.mul_(2.0 if "embedding" in name else 3.0)
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer.uniform_(2.0, 4.0)


def stirred_folder(kind: str, folder: Path, ending: float = 0.0) -> Path:
    """Save one of these models, whose </s> has a logit higher by `ending`; return its folder."""
    config = configured(kind)
    source: Tokenizer = TARGET if kind.endswith("-lm") else SOURCE
    torch.manual_seed(4)
    model = build_model(config.model, source_tokens=source.size, target_tokens=TARGET.size).eval()
    stir(model)
    with torch.no_grad():
        model.get_parameter("decoder.output.bias")[EOS] += ending
    save_model(folder, config, model.state_dict(), source, TARGET)
    return folder
