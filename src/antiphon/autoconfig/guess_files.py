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
from antiphon.autoconfig.text_profile import Side, between, cut, metrics_for, round_up, vocabulary
from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import Config, DataConfig, DecodingConfig, EvaluationConfig, TextConfig, TrainingConfig
from antiphon.config.sources import ImageConfig
from antiphon.data.build_source import file_source
from antiphon.data.lines import read_lines
from antiphon.data.pairs import Pair
from antiphon.data.source import BETWEEN, UnreadableError
from antiphon.data.tables import file_format, read_rows, typical_row
from antiphon.errors import DataError
from antiphon.text import amount

__all__ = ["FileTable", "file_config", "find_files"]

HEAD, MOST = 200, 0.9  # lines looked at, and the share of them whose cells must be paths
LOOKED = 40  # files looked into
WIDE = 3.0  # so many times as wide as high, pictures are lines of text
SUFFIXES = {
    "image": (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"),
    "audio": (".wav", ".flac", ".ogg"),
    "features": (".npy", ".npz"),
}
BESIDE = ("question", "passage", "context", "premise", "hypothesis", "sentence", "prompt")  # texts that are read, too
SAID = (*TARGETS, "text", "caption", "caption1", "transcript", "transcription", "sentence")
NAMES = {"image": "pictures", "audio": "sounds", "features": "arrays", "frames": "videos"}


@dataclass(frozen=True)
class FileTable:
    """The column of paths, what they are, the columns of texts that are read beside them, and the targets."""

    kind: str
    column: int | str
    texts: list[int | str]
    target: int | str | list[int | str]
    reason: str


def find_files(path: Path, name: str) -> FileTable | None:
    """The first column in which nearly every cell is a path of a known kind; None: there is none."""
    if file_format(path) == "jsonl":
        return None
    rows = [row for row in read_rows(path, itertools.islice(read_lines(path), HEAD)) if not row.fault]
    if not rows or len(typical_row(rows).cells) < 2:
        return None
    width = len(typical_row(rows).cells)
    first, *below = [row.cells for row in rows if len(row.cells) == width]
    for number in range(width):
        cells = [row[number].strip() for row in below or [first]]
        kind = kind_of(cells, path.parent)
        if kind is not None:
            header = bool(below) and kind_of([first[number].strip()], path.parent) is None
            return columns_of(kind, number, [cell.strip() for cell in first], name, header=header)
    return None


def kind_of(cells: list[str], folder: Path) -> str | None:
    """What the cells of a column name, if nearly all name the same kind of file."""
    for kind, suffixes in SUFFIXES.items():
        if sum(cell.lower().endswith(suffixes) for cell in cells) >= MOST * len(cells):
            return "frames" if kind == "features" and dimensions(folder / cells[0]) > 2 else kind
    # os.path, unlike pathlib, has no objection to a sentence that is too long for a path.
    folders = sum(bool(cell) and os.path.isdir(folder / cell) for cell in cells[:LOOKED])
    return "frames" if folders >= MOST * len(cells[:LOOKED]) else None


def dimensions(path: Path) -> int:
    """Of an .npy array; 0 if it cannot be read."""
    try:
        return int(np.load(path, mmap_mode="r", allow_pickle=False).ndim)
    except (OSError, ValueError, EOFError, AttributeError):
        return 0


def columns_of(kind: str, number: int, first: list[str], name: str, *, header: bool) -> FileTable:
    """By the names in the first line; without any, the first other column is the target."""
    what = NAMES[kind]
    others = [place for place in range(len(first)) if place != number]
    if not header:
        reason = f"column {number} names {what}: data.source.kind {kind}; column {others[0]} is the target"
        return FileTable(kind, number, [], others[0], reason)
    names = [first[place] for place in others]
    ranked = [one for word in SAID for one in names if one.lower() == word and one.lower() not in BESIDE]
    said = next(iter(ranked), names[-1])
    stem = re.sub(r"\d+$", "", said)
    alike = [one for one in names if stem != said and re.fullmatch(rf"{re.escape(stem)}\d+", one)]
    texts: list[int | str] = [one for one in names if one.lower() in BESIDE and one != said and one not in alike]
    target: int | str | list[int | str] = [*alike] if len(alike) > 1 else said
    reason = f"{name}: the column {first[number]} names {what}: data.source.kind {kind}; {said} is the target"
    reason += f", with {len(alike)} references" if len(alike) > 1 else ""
    reason += f"; {' and '.join(map(str, texts))} is read, too" if texts else ""
    return FileTable(kind, first[number], texts, target, reason)


def file_config(table: FileTable, data: DataConfig, total: int, pairs: list[Pair], reasons: list[str]) -> Config:
    """`data` has the columns; how long and how wide things are, the first files tell."""
    right = Side.of([pair.target for pair in pairs])
    target = cut(right)
    reasons.append(f"data.target.tokens {target.tokens}: {target.reason}")
    longest = between(20, round_up(1.5 * target.longest, 10), 400)
    said = {"tokens": target.tokens, "vocabulary": vocabulary(target.tokens, total), "max_length": longest}
    source, length = source_section(table, data, pairs, reasons)
    texts = [one for one in data.sources if isinstance(one, TextConfig)]
    sources = [source, *(text_section(*one) for one in zip(texts, beside(pairs, table), strict=True))]
    data = data.model_copy(
        update={
            "source": sources if len(sources) > 1 else source,
            "target": data.target.model_copy(update=said),
        }
    )
    batch = between(1024, 2 ** round(math.log2(max(1.0, 32 * length))), 65536)
    updates = max(1, math.ceil(total * length / batch))
    metric = metrics_for(target)[0]
    reasons.append(f"training.batch_tokens {batch}: about 32 examples of {length:.0f} positions")
    reasons.append(f"training.metric {metric}: what counts for targets in {target.tokens}")
    return Config(
        data=data,
        model=model_section(source, len(texts), reasons),
        training=TrainingConfig(
            batch_tokens=batch,
            epochs=between(5, math.ceil(6_000 / updates), 60),
            warmup=between(50, updates, 400),
            metric=metric,
            patience=8,
        ),
        decoding=DecodingConfig(max_length=between(20, 2 * target.longest, 500)),
        evaluation=EvaluationConfig(metrics=metrics_for(target)),
    )


def beside(pairs: list[Pair], table: FileTable) -> list[list[str]]:
    """The cells of each text that is read beside the file."""
    rows = [pair.source.split(BETWEEN)[1:] for pair in pairs]
    return [[row[number] for row in rows] for number in range(len(table.texts))]


def text_section(text: TextConfig, cells: list[str]) -> TextConfig:
    found = cut(Side.of(cells))
    longest = between(20, round_up(1.5 * found.longest, 10), 400)
    size = vocabulary(found.tokens, len(cells))
    return text.model_copy(update={"tokens": found.tokens, "vocabulary": size, "max_length": longest})


def source_section(table: FileTable, data: DataConfig, pairs: list[Pair], reasons: list[str]) -> tuple[Any, float]:
    """The section of the files, and how many positions they have on average."""
    source = data.sources[0]
    cells = list(dict.fromkeys(pair.source.split(BETWEEN)[0] for pair in pairs))[:LOOKED]
    if table.kind == "image" and (shape := median_shape(cells)) is not None:
        source = source.model_copy(update=picture_keys(*shape, reasons))
    lengths = read_lengths(source, cells)
    if not lengths:
        raise DataError(f"{cells[0]}: none of the first {len(cells)} {NAMES[table.kind]} can be read; check the paths")
    most, usual = max(lengths), type(source).model_fields["max_length"].default
    fixed = isinstance(source, ImageConfig) and source.width is not None
    longest = usual if fixed else max(usual, round_up(1.5 * most, 100))
    looked = amount(len(lengths), NAMES[table.kind])
    reasons.append(f"data.source.max_length {longest}: the longest of {looked} has {most} positions")
    return source.model_copy(update={"max_length": longest}), sum(lengths) / len(lengths)


def picture_keys(width: float, height: float, reasons: list[str]) -> dict[str, Any]:
    """Lines of text keep their width and lose their colour; other pictures become squares."""
    if width > WIDE * height:
        tall = int(between(16, round_up(min(height, 48), 8), 48))
        reasons.append(f"data.source.width null, height {tall}: wide pictures, as lines of text are")
        return {"height": tall, "width": None, "colour": False}
    side = int(between(32, round_up(min(max(width, height), 128), 16), 128))
    reasons.append(f"data.source.height and width {side}: as large as most pictures, 128 at most")
    return {"height": side, "width": side}


def median_shape(cells: list[str]) -> tuple[float, float] | None:
    from antiphon.data.image import open_picture

    shapes = []
    for cell in cells:
        try:
            with open_picture(cell) as image:
                shapes.append(image.size)
        except UnreadableError:
            continue
    return (float(np.median([w for w, _ in shapes])), float(np.median([h for _, h in shapes]))) if shapes else None


def read_lengths(source: Any, cells: list[str]) -> list[int]:  # noqa: ANN401 (any section of files)
    """Positions of the files that can be read."""
    reader, found = file_source(source, cells).reader, []
    for cell in cells:
        try:
            found.append(reader.length(cell))
        except UnreadableError:
            continue
    return found


def model_section(source: Any, texts: int, reasons: list[str]) -> EncoderDecoderConfig:  # noqa: ANN401
    """Cells of a picture are attended to as they are; what has an order is read in order.

    So many `texts` are read beside it, each with the usual front.
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
