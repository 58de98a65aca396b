"""A configuration for a table with a column of paths: pictures, sounds, arrays or videos."""

from __future__ import annotations

import itertools
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from antiphon.autoconfig.columns import TARGETS
from antiphon.autoconfig.text_profile import TextProfile, choose_metrics, choose_tokens, clamp, round_up, with_tokens
from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import Config, DataConfig, DecodingConfig, EvaluationConfig, TextConfig
from antiphon.config.sources import ImageConfig
from antiphon.config.training import ScheduleConfig, TrainingConfig
from antiphon.data.build_source import file_source
from antiphon.data.lines import read_lines
from antiphon.data.pairs import Pair
from antiphon.data.source import UnreadableError
from antiphon.data.tables import file_format, read_table_rows, typical_row
from antiphon.errors import DataError
from antiphon.text import plural

__all__ = ["FileTable", "file_config", "find_files"]

HEAD, MOST = 200, 0.9  # lines read, and the share of them whose cells must be paths
SAMPLE = 40  # files opened
WIDE = 3.0  # times as wide as high: pictures of lines of text
SUFFIXES = {
    "image": (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"),
    "audio": (".wav", ".flac", ".ogg"),
    "features": (".npy", ".npz"),
}
TEXTS = ("question", "passage", "context", "premise", "hypothesis", "sentence", "prompt")  # further sources
CAPTIONS = (*TARGETS, "text", "caption", "caption1", "transcript", "transcription", "sentence")
NAMES = {"image": "pictures", "audio": "sounds", "features": "arrays", "frames": "videos"}


@dataclass(frozen=True)
class FileTable:
    """The column of paths, the kind of their files, the columns of texts beside them, and the targets."""

    kind: str
    column: int | str
    texts: list[int | str]
    target: int | str | list[int | str]
    reason: str


def find_files(path: Path, name: str) -> FileTable | None:
    """The first column in which nearly every cell is a path of a known kind; None if there is none."""
    if file_format(path) == "jsonl":
        return None
    rows = [row for row in read_table_rows(path, itertools.islice(read_lines(path), HEAD)) if not row.fault]
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
    """The kind of the files of a column, if nearly all cells name the same kind."""
    for kind, suffixes in SUFFIXES.items():
        if sum(cell.lower().endswith(suffixes) for cell in cells) >= MOST * len(cells):
            return "frames" if kind == "features" and dimensions(folder / cells[0]) > 2 else kind
    # os.path, unlike pathlib, accepts a sentence that is too long for a path.
    folders = sum(bool(cell) and os.path.isdir(folder / cell) for cell in cells[:SAMPLE])
    return "frames" if folders >= MOST * len(cells[:SAMPLE]) else None


def dimensions(path: Path) -> int:
    """The rank of an .npy array; 0 if it cannot be read."""
    try:
        return int(np.load(path, mmap_mode="r", allow_pickle=False).ndim)
    except (OSError, ValueError, EOFError, AttributeError):
        return 0


def choose_columns(kind: str, number: int, first: list[str], name: str, *, header: bool) -> FileTable:
    """The columns by the names in the first line; without a header, the first other column is the target."""
    what = NAMES[kind]
    others = [place for place in range(len(first)) if place != number]
    if not header:
        reason = f"column {number} names {what}: data.source.kind {kind}; column {others[0]} is the target"
        return FileTable(kind, number, [], others[0], reason)
    names = [first[place] for place in others]
    ranked = [column for word in CAPTIONS for column in names if column.lower() == word and word not in TEXTS]
    caption = next(iter(ranked), names[-1])
    stem = re.sub(r"\d+$", "", caption)
    numbered = [column for column in names if stem != caption and re.fullmatch(rf"{re.escape(stem)}\d+", column)]
    targets = {caption, *numbered}
    texts: list[int | str] = [column for column in names if column.lower() in TEXTS and column not in targets]
    target: int | str | list[int | str] = [*numbered] if len(numbered) > 1 else caption
    reason = f"{name}: the column {first[number]} names {what}: data.source.kind {kind}; {caption} is the target"
    reason += f", with {len(numbered)} references" if len(numbered) > 1 else ""
    reason += f"; {' and '.join(map(str, texts))} is read, too" if texts else ""
    return FileTable(kind, first[number], texts, target, reason)


def file_config(table: FileTable, data: DataConfig, total: int, pairs: list[Pair], reasons: list[str]) -> Config:
    """A configuration; `data` has the columns, the first files tell lengths and sizes."""
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
    reasons.append(f"training.metric {metric}: what counts for targets in {target.tokens}")
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
    """The section of the files, and their mean length in positions."""
    source = data.sources[0]
    cells = list(dict.fromkeys(pair.cells[0] for pair in pairs))[:SAMPLE]
    if table.kind == "image" and (shape := median_shape(cells)) is not None:
        source = source.model_copy(update=picture_size(*shape, reasons))
    lengths = file_lengths(source, cells)
    if not lengths:
        raise DataError(f"{cells[0]}: none of the first {len(cells)} {NAMES[table.kind]} can be read; check the paths")
    most, default = max(lengths), type(source).model_fields["max_length"].default
    fixed = isinstance(source, ImageConfig) and source.width is not None
    longest = default if fixed else max(default, round_up(1.5 * most, 100))
    sample = plural(len(lengths), NAMES[table.kind])
    reasons.append(f"data.source.max_length {longest}: the longest of {sample} has {most} positions")
    return source.model_copy(update={"max_length": longest}), sum(lengths) / len(lengths)


def picture_size(width: float, height: float, reasons: list[str]) -> dict[str, Any]:
    """Lines of text keep their width and lose their colour; other pictures become squares."""
    if width > WIDE * height:
        tall = int(clamp(16, round_up(min(height, 48), 8), 48))
        reasons.append(f"data.source.width null, height {tall}: wide pictures, as lines of text are")
        return {"height": tall, "width": None, "colour": False}
    side = int(clamp(32, round_up(min(max(width, height), 128), 16), 128))
    reasons.append(f"data.source.height and width {side}: as large as most pictures, 128 at most")
    return {"height": side, "width": side}


def median_shape(cells: list[str]) -> tuple[float, float] | None:
    """The median width and height of the pictures that can be read."""
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
    """Cells of a picture are attended to directly; sounds, vectors, frames and lines of text go through an LSTM.

    `texts` is the number of texts beside the file; each has the default front end.
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
    reasons.append(f"model.encoder.kind {parts['encoder']['kind']}: what is usual for {NAMES[source.kind]} like these")
    return EncoderDecoderConfig.model_validate(parts)
