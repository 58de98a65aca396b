"""Models small enough for every test, with weights from a formula: the same on every machine, without a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_args

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from antiphon.config.messages import kinds_of, sections_in
from antiphon.config.networks import BahdanauConfig, LuongConfig, ModelConfig, RecurrentEncoderConfig
from antiphon.data.batches import Batch, source_batch
from antiphon.data.tokenizers import EOS, PAD
from antiphon.models.build import build_model
from antiphon.models.model import SequenceModel
from antiphon.sequence import Sequence

SOURCE_TOKENS, TARGET_TOKENS = 11, 9
# Three sources of unequal length, and a target of equal length for each.
ROWS = [[4, 5, 6, 7, 10], [6, 4, 9], [8]]
INPUTS = torch.tensor([[1, 4, 5, 6], [1, 8, 4, 4], [1, 7, 5, 8]])


def choices(section: type[BaseModel], field: str) -> tuple[Any, ...]:
    """The values a Literal key may have, or the kinds of a section."""
    annotation = section.model_fields[field].annotation
    return tuple(kind for part in sections_in(annotation) for kind in kinds_of(part)) or get_args(annotation)


def fill(module: nn.Module, scale: float = 0.6) -> None:
    """Every weight becomes a value of a sine: none is 0, no two rows are alike. So do the means of a batch norm."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(_sines(parameter, number) * scale)
        for number, (name, buffer) in enumerate(module.named_buffers()):
            if name.endswith("running_mean"):
                buffer.copy_(_sines(buffer, number) * scale)
            if name.endswith("running_var"):
                buffer.copy_(_sines(buffer, number) * 0.5 + 1.0)


def _sines(like: Tensor, number: int) -> Tensor:
    places = torch.arange(like.numel(), dtype=torch.float64)
    return torch.sin(1.7 * places + number + 0.5).reshape(like.shape)


def tensors(value: object) -> Iterator[Tensor]:
    """Every tensor of a state, whatever it is made of."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from tensors(part)
    elif value is not None:
        for field in fields(value):  # type: ignore[arg-type]
            yield from tensors(getattr(value, field.name))


def sizes(config: ModelConfig) -> dict[str, int]:
    """The vocabulary size of each side: different numbers, unless both sides share one table."""
    return {"source_tokens": SOURCE_TOKENS, "target_tokens": SOURCE_TOKENS if one_table(config) else TARGET_TOKENS}


def one_table(config: ModelConfig) -> bool:
    """True if both sides share one table."""
    return config.tie in ("tables", "all")


def tiny_model(config: ModelConfig, dtype: torch.dtype = torch.float64) -> SequenceModel:
    """In double precision by default, so that equal means equal to ten digits."""
    model = build_model(config, **sizes(config))
    fill(model)
    return model.to(dtype).eval()


def tiny_batch() -> Batch:
    """Three pairs; one target is shorter."""
    inputs, outputs = INPUTS.clone(), INPUTS.roll(-1, dims=1)
    outputs[:, -1] = EOS
    inputs[2, 3], outputs[2, 2:] = PAD, torch.tensor([EOS, PAD])
    return Batch(source_batch(ROWS), inputs, Sequence(outputs, outputs != PAD))


def labelled_batch() -> Batch:
    """The same sources with a label for each token."""
    outputs = Sequence.of_ids([[*(4 + token % 5 for token in row), EOS] for row in ROWS], PAD)
    inputs = torch.cat([torch.ones(3, 1, dtype=torch.long), outputs.values[:, :-1]], dim=1)
    return Batch(source_batch(ROWS), inputs, outputs)


def batch_for(config: ModelConfig) -> Batch:
    """Three pairs that a model of this kind can learn from."""
    return labelled_batch() if config.kind == "tagger" else tiny_batch()


def close(left: Tensor, right: Tensor) -> None:
    """Equal to nine digits. What says how they differ is slow, so it is asked only then."""
    if left.shape != right.shape or not torch.allclose(left, right, rtol=1e-9, atol=1e-10):
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-10)


def encoder(
    kind: str = "gru", size: int = 4, layers: int = 1, bidirectional: bool = True, residual: bool = False
) -> RecurrentEncoderConfig:
    return RecurrentEncoderConfig.model_validate(
        {
            "kind": kind,
            "embedding": 5,
            "size": size,
            "layers": layers,
            "bidirectional": bidirectional,
            "residual": residual,
            "dropout": 0.0,
        }
    )


def decoder(kind: str = "bahdanau", cell: str = "gru", layers: int = 1, feed: bool = False) -> Any:  # noqa: ANN401
    values = {"kind": kind, "cell": cell, "embedding": 6, "size": 8, "layers": layers, "dropout": 0.0}
    if kind == "luong":
        return LuongConfig.model_validate({**values, "input_feeding": feed})
    return BahdanauConfig.model_validate(values)
