"""A configuration for a table with a column of paths: images, recordings, arrays or videos."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from antiphon.autoconfig.columns import TARGET_NAMES
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
from antiphon.data.image import SUFFIXES as IMAGE_SUFFIXES
from antiphon.data.pairs import Pair
from antiphon.data.source import UnreadableError
from antiphon.data.tables import is_keyed, sample_table, typical_row
from antiphon.errors import DataError
from antiphon.text import plural

__all__ = ["FileTable", "file_config", "find_file_table"]

SAMPLE_LINES, MIN_SHARE = 200, 0.9  # a column of paths has paths in at least this share of its cells
SAMPLE_FILES = 40
LINE_ASPECT = 3.0  # width / height, above which an image is taken for a line of text
FILE_SUFFIXES = {
    "image": IMAGE_SUFFIXES,
    "audio": (".wav", ".flac", ".ogg"),
    "features": (".npy", ".npz"),
}
TEXT_COLUMNS = (
    "question",
    "passage",
    "context",
    "premise",
    "hypothesis",
    "sentence",
    "prompt",
)  # sources beside the files
TARGET_COLUMNS = (*TARGET_NAMES, "text", "caption", "caption1", "transcript", "transcription", "sentence")
KIND_NAMES = {"image": "images", "audio": "recordings", "features": "arrays", "frames": "videos"}


@dataclass(frozen=True)
class FileTable:
    """The kind of the files, the column of their paths, the columns of further texts, and the target."""

    kind: str
    column: int | str
    texts: list[int | str]
    target: int | str | list[int | str]
    reason: str


def find_file_table(path: Path, name: str) -> FileTable | None:
    """The table by its first column of paths to files of a known kind; None if there is no such column."""
    if is_keyed(path):
        return None
    rows = [row for row in sample_table(path, count=SAMPLE_LINES).rows if not row.fault]
    if not rows or len(typical_row(rows).cells) < 2:
        return None
    width = len(typical_row(rows).cells)
    first, *below = [row.cells for row in rows if len(row.cells) == width]
    for number in range(width):
        cells = [row[number].strip() for row in below or [first]]
        kind = file_kind(cells, path.parent)
        if kind is not None:
            header = bool(below) and file_kind([first[number].strip()], path.parent) is None
            return choose_columns(kind, number, [cell.strip() for cell in first], name, header=header)
    return None


def file_kind(cells: list[str], folder: Path) -> str | None:
    """The kind of the files of a column; None if the cells are not paths to files of one kind."""
    for kind, suffixes in FILE_SUFFIXES.items():
        if sum(cell.lower().endswith(suffixes) for cell in cells) >= MIN_SHARE * len(cells):
            return "frames" if kind == "features" and array_rank(folder / cells[0]) > 2 else kind
    # os.path, unlike pathlib, accepts a sentence that is too long for a path.
    folders = sum(bool(cell) and os.path.isdir(folder / cell) for cell in cells[:SAMPLE_FILES])
    return "frames" if folders >= MIN_SHARE * len(cells[:SAMPLE_FILES]) else None


def array_rank(path: Path) -> int:
    """The rank of an .npy array; 0 if it cannot be read."""
    try:
        return int(np.load(path, mmap_mode="r", allow_pickle=False).ndim)
    except (OSError, ValueError, EOFError, AttributeError):
        return 0


def choose_columns(kind: str, number: int, first: list[str], name: str, *, header: bool) -> FileTable:
    """The columns by the names in the first line; without a header, the first other column is the target."""
    files = KIND_NAMES[kind]
    others = [other for other in range(len(first)) if other != number]
    if not header:
        reason = f"column {number} names {files}: data.source.kind {kind}; column {others[0]} is the target"
        return FileTable(kind, number, [], others[0], reason)
    names = [first[other] for other in others]
    ranked = [
        column for word in TARGET_COLUMNS for column in names if column.lower() == word and word not in TEXT_COLUMNS
    ]
    caption = next(iter(ranked), names[-1])
    stem = re.sub(r"\d+$", "", caption)
    numbered = [column for column in names if stem != caption and re.fullmatch(rf"{re.escape(stem)}\d+", column)]
    targets = {caption, *numbered}
    texts: list[int | str] = [column for column in names if column.lower() in TEXT_COLUMNS and column not in targets]
    target: int | str | list[int | str] = [*numbered] if len(numbered) > 1 else caption
    reason = f"{name}: the column {first[number]} names {files}: data.source.kind {kind}; {caption} is the target"
    reason += f", with {len(numbered)} references" if len(numbered) > 1 else ""
    reason += f"; further sources: {', '.join(map(str, texts))}" if texts else ""
    return FileTable(kind, first[number], texts, target, reason)


def file_config(table: FileTable, data: DataConfig, total: int, pairs: list[Pair], reasons: list[str]) -> Config:
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


def source_section(table: FileTable, data: DataConfig, pairs: list[Pair], reasons: list[str]) -> tuple[Any, float]:
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
