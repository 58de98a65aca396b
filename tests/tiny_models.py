"""Models small enough for every test, with weights from a formula: the same on every machine, without a seed."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from antiphon.build import build_model
from antiphon.config.schema import (
    AttentionConfig,
    BahdanauConfig,
    LuongConfig,
    ModelConfig,
    RecurrentEncoderConfig,
)
from antiphon.model import EncoderDecoder

SOURCE_TOKENS, TARGET_TOKENS = 11, 9


def choices(section: type[BaseModel], field: str) -> tuple[Any, ...]:
    """The values a Literal key may have."""
    return get_args(section.model_fields[field].annotation)


def fill(module: nn.Module, scale: float = 0.6) -> None:
    """Every weight becomes a value of a sine: none is 0, no two rows are alike."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            places = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((scale * torch.sin(1.7 * places + number + 0.5)).reshape(parameter.shape))


def tiny_model(config: ModelConfig, dtype: torch.dtype = torch.float64) -> EncoderDecoder:
    """In double precision by default, so that equal means equal to ten digits."""
    model = build_model(config, source_tokens=SOURCE_TOKENS, target_tokens=TARGET_TOKENS)
    fill(model)
    return model.to(dtype).eval()


def close(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-10)


def encoder(kind: str = "gru", size: int = 4, layers: int = 1, bidirectional: bool = True) -> RecurrentEncoderConfig:
    return RecurrentEncoderConfig.model_validate(
        {"kind": kind, "embedding": 5, "size": size, "layers": layers, "bidirectional": bidirectional, "dropout": 0.0}
    )


def decoder(kind: str = "bahdanau", cell: str = "gru", layers: int = 1, feed: bool = False) -> Any:  # noqa: ANN401
    values = {"kind": kind, "cell": cell, "embedding": 6, "size": 8, "layers": layers, "dropout": 0.0}
    if kind == "luong":
        return LuongConfig.model_validate({**values, "input_feeding": feed})
    return BahdanauConfig.model_validate(values)


def _encoder_cases() -> dict[str, ModelConfig]:
    """Every encoder, with one decoder."""
    kinds = choices(RecurrentEncoderConfig, "kind")
    return {
        f"{kind}-{'both' if both else 'left'}-{layers}": ModelConfig(
            encoder=encoder(kind, 8, layers, both), context=AttentionConfig(), decoder=decoder()
        )
        for kind, both, layers in product(kinds, (False, True), (1, 2))
    }


def _decoder_cases() -> dict[str, ModelConfig]:
    """Every decoder with every score, with one encoder."""
    plain = [("bahdanau", cell, layers, False) for cell, layers in product(choices(BahdanauConfig, "cell"), (1, 2))]
    luong = [
        ("luong", cell, layers, feed)
        for cell, layers, feed in product(choices(LuongConfig, "cell"), (1, 2), (False, True))
    ]
    return {
        f"{kind}{'-fed' if feed else ''}-{cell}-{layers}-{score}": ModelConfig(
            encoder=encoder(),
            context=AttentionConfig(score=score),
            decoder=decoder(kind, cell, layers, feed),
        )
        for (kind, cell, layers, feed), score in product([*plain, *luong], choices(AttentionConfig, "score"))
    }


CASES: dict[str, ModelConfig] = _encoder_cases() | _decoder_cases()
