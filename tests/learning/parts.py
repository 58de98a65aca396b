"""Parts that are large enough to learn the tasks, and no larger."""

from __future__ import annotations

from typing import Any

from antiphon.config.networks import EncoderDecoderConfig

Part = dict[str, Any]
GRU: Part = {"kind": "gru", "size": 32, "embedding": 24, "dropout": 0.0}
CNN: Part = {"kind": "cnn", "size": 64, "embedding": 24, "layers": 3, "dropout": 0.0}
BLOCK: Part = {"kind": "transformer", "size": 64, "layers": 1, "heads": 4, "feedforward": 128, "dropout": 0.0}
PLAIN: Part = {"kind": "plain", "cell": "gru", "size": 64, "embedding": 24, "dropout": 0.0}
ENCODERS: dict[str, Part] = {
    **{kind: {**GRU, "kind": kind} for kind in ("gru", "lstm", "rnn", "rnn-relu")},
    "cnn": CNN,
    "transformer": BLOCK,
}
DECODERS: dict[str, Part] = {
    "bahdanau": {**PLAIN, "kind": "bahdanau"},
    "luong": {**PLAIN, "kind": "luong"},
    "luong, fed": {**PLAIN, "kind": "luong", "input_feeding": True},
}


def encoder_decoder(encoder: Part, context: Part, decoder: Part) -> EncoderDecoderConfig:
    return EncoderDecoderConfig.model_validate({"encoder": encoder, "context": context, "decoder": decoder})


def attending(encoder: Part, decoder: Part, *, score: str, alignment: str = "soft") -> EncoderDecoderConfig:
    return encoder_decoder(encoder, {"kind": "attention", "score": score, "alignment": alignment}, decoder)
