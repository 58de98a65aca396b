"""A configuration for a table with a column of paths: images, recordings, arrays or videos."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from antiphon.autoconfig.columns import Columns
from antiphon.autoconfig.text_profile import TextProfile, choose_metrics, choose_tokens, clamp, round_up, with_tokens
from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import (
    Config,
    DataConfig,
    DecodingConfig,
    EvaluationConfig,
    ScheduleConfig,
    TextConfig,
    TrainingConfig,
)
from antiphon.config.sources import ImageConfig
from antiphon.data.build_source import file_source
from antiphon.data.pairs import Pair
from antiphon.data.source import UnreadableError
from antiphon.errors import DataError
from antiphon.text import plural

__all__ = ["file_config"]

SAMPLE_FILES = 40
LINE_ASPECT = 3.0  # width / height, above which an image is taken for a line of text
KIND_NAMES = {"image": "images", "audio": "recordings", "features": "arrays", "frames": "videos"}


def file_config(table: Columns, data: DataConfig, total: int, pairs: list[Pair], reasons: list[str]) -> Config:
    """A configuration; `data` has the columns, lengths and sizes are estimated from the first files."""
    target = choose_tokens(TextProfile.of([pair.target for pair in pairs]))
    reasons.append(f"data.target.tokens {target.tokens}: {target.reason}")
    source, length = source_section(table, data, pairs, reasons)
    sources = [source]
    for number, text in enumerate(data.sources):
        if isinstance(text, TextConfig):
            profile = TextProfile.of([pair.cells[number] for pair in pairs])
            sources.append(with_tokens(text, choose_tokens(profile), len(pairs)))
    changes = {"source": sources if len(sources) > 1 else source, "target": with_tokens(data.target, target, total)}
    data = data.model_copy(update=changes)
    batch = clamp(1024, 2 ** round(math.log2(max(1.0, 32 * length))), 65536)
    updates = max(1, math.ceil(total * length / batch))
    metric = choose_metrics(target)[0]
    reasons.append(f"training.batch_tokens {batch}: about 32 examples of {length:.0f} positions")
    reasons.append(f"training.metric {metric}: usual for targets in {target.tokens}")
    return Config(
        data=data,
        model=model_section(source, len(sources) - 1, reasons),
        training=TrainingConfig(
            batch_tokens=batch,
            epochs=clamp(5, math.ceil(6_000 / updates), 60),
            schedule=ScheduleConfig(warmup=clamp(50, updates, 400)),
            metric=metric,
            patience=8,
        ),
        decoding=DecodingConfig(max_length=clamp(20, 2 * target.longest, 500)),
        evaluation=EvaluationConfig(metrics=choose_metrics(target)),
    )


def source_section(table: Columns, data: DataConfig, pairs: list[Pair], reasons: list[str]) -> tuple[Any, float]:
    """The configuration of the files, and their mean length in positions."""
    source = data.sources[0]
    cells = list(dict.fromkeys(pair.cells[0] for pair in pairs))[:SAMPLE_FILES]
    if table.kind == "image" and (shape := median_shape(cells)) is not None:
        source = source.model_copy(update=image_size(*shape, reasons))
    lengths = file_lengths(source, cells)
    if not lengths:
        raise DataError(
            f"{cells[0]}: none of the first {len(cells)} {KIND_NAMES[table.kind]} can be read; check the paths"
        )
    longest_seen, default = max(lengths), type(source).model_fields["max_length"].default
    fixed = isinstance(source, ImageConfig) and source.width is not None
    longest = default if fixed else max(default, round_up(1.5 * longest_seen, 100))
    sample = plural(len(lengths), KIND_NAMES[table.kind])
    reasons.append(f"data.source.max_length {longest}: the longest of {sample} has {longest_seen} positions")
    return source.model_copy(update={"max_length": longest}), sum(lengths) / len(lengths)


def image_size(width: float, height: float, reasons: list[str]) -> dict[str, Any]:
    """Lines of text keep their width and become grey; other images become squares."""
    if width > LINE_ASPECT * height:
        rows = int(clamp(16, round_up(min(height, 48), 8), 48))
        reasons.append(f"data.source.width null, height {rows}: wide images, such as lines of text")
        return {"height": rows, "width": None, "colour": False}
    side = int(clamp(32, round_up(min(max(width, height), 128), 16), 128))
    reasons.append(f"data.source.height and width {side}: as large as most images, at most 128")
    return {"height": side, "width": side}


def median_shape(cells: list[str]) -> tuple[float, float] | None:
    """The median width and height of the images that can be read."""
    from antiphon.data.image import open_picture

    shapes = []
    for cell in cells:
        try:
            with open_picture(cell) as image:
                shapes.append(image.size)
        except UnreadableError:
            continue
    return (float(np.median([w for w, _ in shapes])), float(np.median([h for _, h in shapes]))) if shapes else None


def file_lengths(source: Any, cells: list[str]) -> list[int]:  # noqa: ANN401 (any section of files)
    """The lengths of the files that can be read, in positions."""
    reader, lengths = file_source(source, cells), []
    for cell in cells:
        try:
            lengths.append(reader.length(cell))
        except UnreadableError:
            continue
    return lengths


def model_section(source: Any, texts: int, reasons: list[str]) -> EncoderDecoderConfig:  # noqa: ANN401
    """Attention reads the cells of an image directly; audio, vectors, videos and lines of text go through an LSTM.

    `texts` is the number of further text sources; each has the default front end.
    """
    parts: dict[str, Any] = {"decoder": {"kind": "bahdanau", "dropout": 0.3}}
    if source.kind != "image":
        parts["encoder"] = {"kind": "lstm", "layers": 2, "dropout": 0.3}
    elif source.width is None:
        lines = {"kind": "cells", "columns": True}
        parts["front"] = [lines, *[None] * texts] if texts else lines
        parts["encoder"] = {"kind": "lstm", "layers": 2, "dropout": 0.3}
    else:
        parts["encoder"] = {"kind": "none", "dropout": 0.3}
    reasons.append(f"model.encoder.kind {parts['encoder']['kind']}: usual for such {KIND_NAMES[source.kind]}")
    return EncoderDecoderConfig.model_validate(parts)
