"""Every front, and several sources in both ways: models of size 8 that read no single text."""
# S source steps, D width of a vector

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from model_cases import ENCODERS, MULTI_HEAD, TRANSFORMER, encoder_decoder, recurrent_decoder
from tiny_models import fill

from antiphon.config.checks import check_config
from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import Config
from antiphon.data.batches import source_batch
from antiphon.data.source import Read, Values
from antiphon.models.build import build_for
from antiphon.models.model import SequenceModel
from antiphon.sequence import MultiSource, Sequence

Source = dict[str, Any]
TARGET_TOKENS, TEXT_TOKENS = 9, 11
LENGTHS = (9, 5, 2)  # three examples; of pictures and sounds four times as many positions
INPUTS = torch.tensor([[1, 4, 5, 6], [1, 8, 4, 4], [1, 7, 5, 8]])

TEXT: Source = {"kind": "text"}
FEATURES: Source = {"kind": "features"}
AUDIO: Source = {"kind": "audio", "mels": 6}
IMAGE: Source = {"kind": "image", "height": 8, "width": None, "colour": False}
FRAMES: Source = {"kind": "frames", "height": 4, "width": 4, "colour": True}
WIDTHS = {"text": TEXT_TOKENS, "features": 5, "audio": 6, "image": 8, "frames": 48}
CELLS: Source = {"kind": "cells", "channels": [3, 4], "blocks": 1, "dropout": 0.0}
PATCHES: Source = {"kind": "patches", "patch": 4, "dropout": 0.0}
LINEAR: Source = {"kind": "linear", "dropout": 0.0}
SUBSAMPLED: Source = {"kind": "subsampled", "channels": 4, "kernel": 3, "dropout": 0.0}
FRAME_CELLS: Source = {"kind": "frame-cells", "channels": [3], "blocks": 0, "dropout": 0.0}
FRONT_ENDS = {
    "cells": (IMAGE, CELLS),
    "cells-columns": (IMAGE, {**CELLS, "columns": True, "wide": 1}),
    "patches": (IMAGE, PATCHES),
    "pixels": (IMAGE, LINEAR),
    "subsampled": (AUDIO, SUBSAMPLED),
    "spectra": (AUDIO, LINEAR),
    "linear": (FEATURES, LINEAR),
    "linear-stacked": (FEATURES, {**LINEAR, "stack": 2}),
    "features-subsampled": (FEATURES, SUBSAMPLED),
    "frame-cells": (FRAMES, FRAME_CELLS),
    "frame-pixels": (FRAMES, LINEAR),
}
BAHDANAU = recurrent_decoder("bahdanau", "gru")
ATTENTION = {"kind": "attention"}


@dataclass(frozen=True)
class Case:
    """Sources and a model that reads them."""

    sources: list[Source]
    model: EncoderDecoderConfig

    @property
    def config(self) -> Config:
        sources = [{**source, "column": number} for number, source in enumerate(self.sources)]
        data = {
            "train": "table.tsv",
            "source": sources if len(sources) > 1 else sources[0],
            "target": {"column": len(sources)},
            "shared_vocabulary": self.model.matches,
        }
        return Config.model_validate({"data": data, "model": self.model})

    def build(self) -> SequenceModel:
        config = self.config
        assert check_config(config) == []
        sizes = [WIDTHS[source.kind] for source in config.data.sources]
        model = build_for(config.model, config.data.sources, sizes, target_tokens=TARGET_TOKENS)
        fill(model)
        return model.double().eval()

    def rows(self, shift: float = 0.0) -> list[Read]:
        """Three examples; another shift, other values."""
        rows = []
        for length in LENGTHS:
            parts = tuple(values(source["kind"], length, n + shift) for n, source in enumerate(self.sources))
            rows.append(parts if len(parts) > 1 else parts[0])
        return rows


def values(kind: str, length: int, shift: float) -> Values:
    """A source of this kind: values of a sine."""
    if kind == "text":
        return [4 + (3 * place + length + int(10 * shift)) % (TEXT_TOKENS - 4) for place in range(length)]
    steps = 4 * length if kind in ("image", "audio") else length
    places = np.arange(steps * WIDTHS[kind]).reshape(steps, WIDTHS[kind])
    return np.sin(1.3 * places + length + shift).astype(np.float32)


def batch(rows: list[Read]) -> Sequence | MultiSource:
    """In double precision."""
    found = source_batch(rows)
    return MultiSource(tuple(map(doubled, found.parts))) if isinstance(found, MultiSource) else doubled(found)


def doubled(source: Sequence) -> Sequence:
    return source if source.values.dim() == 2 else Sequence(source.values.double(), source.mask)


def model(encoder: Any, front: Any = None, decoder: Source = BAHDANAU, context: Source = ATTENTION) -> Any:  # noqa: ANN401
    made = encoder_decoder({"kind": "gru"}, context, decoder)
    values = {"encoder": encoder, "front": front, "context": context, "decoder": decoder, "tie": made.tie}
    return EncoderDecoderConfig.model_validate(values)


def cases() -> dict[str, Case]:
    """Every front with no encoder; some with every encoder and with a Transformer; several, joint and apart."""
    found = {
        f"{name}_none": Case([source], model(ENCODERS["none"], front)) for name, (source, front) in FRONT_ENDS.items()
    }
    for name in ("cells", "linear", "subsampled", "frame-cells"):
        source, front = FRONT_ENDS[name]
        found |= {f"{name}_{encoder}": Case([source], model(part, front)) for encoder, part in ENCODERS.items()}
    unplaced = {**TRANSFORMER, "positions": "none"}
    found["patches_transformer"] = Case([IMAGE], model(unplaced, PATCHES, TRANSFORMER, MULTI_HEAD["multi-head"]))
    several = {
        "two-texts": ([TEXT, TEXT], None),
        "text-image": ([TEXT, IMAGE], [None, CELLS]),
        "image-text-features": ([IMAGE, TEXT, FEATURES], [CELLS, None, LINEAR]),
    }
    for name, (sources, front) in several.items():
        found |= {f"{name}_{encoder}": Case(sources, model(part, front)) for encoder, part in ENCODERS.items()}
        found[f"{name}_transformers"] = Case(sources, model(TRANSFORMER, front, TRANSFORMER, MULTI_HEAD["multi-head"]))
        apart = [ENCODERS["gru"], {**ENCODERS["lstm"], "layers": 2}, unplaced][: len(sources)]
        found[f"{name}_apart"] = Case(sources, model(apart, front))
        told = {"kind": "last", "feed": "both", "bridge": "dense"}
        found[f"{name}_apart_last"] = Case(sources, model(apart, front, recurrent_decoder("plain", "lstm"), told))
    matched = {
        f"{name}_matches": found[name] for name in ("two-texts_gru", "two-texts_apart", "two-texts_transformers")
    }
    return found | {name: replace(case, model=with_matches(case.model)) for name, case in matched.items()}


def with_matches(config: EncoderDecoderConfig) -> EncoderDecoderConfig:
    return config.model_copy(update={"matches": True})


CASES = cases()
