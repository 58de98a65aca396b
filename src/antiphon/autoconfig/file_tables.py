"""A configuration for a table with a column of paths: images, recordings, arrays or videos."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from antiphon.autoconfig.columns import Columns
from antiphon.autoconfig.settings import Amount, explain_differences, fit_settings, start_from
from antiphon.autoconfig.tasks import Evidence
from antiphon.autoconfig.text_profile import TokenChoice, choose_metrics, clamp, round_up
from antiphon.autoconfig.text_sections import fit_texts
from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import Config, DataConfig, EvaluationConfig, TrainingConfig
from antiphon.config.sources import AudioConfig, ImageConfig
from antiphon.data.pairs import Pair
from antiphon.data.source import UnreadableError
from antiphon.errors import DataError
from antiphon.text import plural

__all__ = ["file_config"]

SAMPLE_FILES = 40
AUGMENTATION = ("shift", "scale", "contrast", "masks", "normalise")
CTC_POSITIONS = 8  # for each token, before a front end that makes one vector of four
SHORT_SOUND = 100  # spectra, of 10 ms
LOW_RATE = 8000  # Hz
LINE_ASPECT = 3.0  # width / height, above which an image is taken for a line of text
MIN_SHAPES, MIN_RELATED = 10, 0.6  # images, and the correlation of their aspect with the length of their text
FEW_CHARACTERS = 12  # different ones, such as digits
Shapes = dict[str, tuple[int, int]]  # width and height of an image by its path
KIND_NAMES = {"image": "images", "audio": "recordings", "features": "arrays", "frames": "videos"}


def file_config(table: Columns, data: DataConfig, total: int, pairs: list[Pair], reasons: list[str]) -> Config:
    """A configuration; `data` has the columns, lengths and sizes are estimated from the first files."""
    source, length = source_section(table, data, pairs, reasons)
    wide = isinstance(source, ImageConfig) and source.width is None
    seen = Evidence.of(pairs, [source.kind for source in data.sources], total, wide=wide)
    recipe = base = start_from(seen, reasons)
    if base is not None:
        base = without_ctc(base, seen, length, reasons)
        source, length = with_augmentation(source, base.data.sources[0], length)
    data = data.model_copy(update={"source": [source, *data.sources[1:]] if len(data.sources) > 1 else source})
    texts = fit_texts(data, seen, base.data if base else None, reasons, files=length)
    base = base or general_file_config(texts.data, texts.target, length, reasons)
    config = fit_settings(base, texts.data, Amount(total, texts.length), texts.target, reasons)
    if recipe is not None:
        explain_differences(recipe, config, reasons)
    return config


def general_file_config(data: DataConfig, target: TokenChoice, length: float, reasons: list[str]) -> Config:
    """The usual network for the kind of files, if no task is recognised."""
    metrics = choose_metrics(target)
    batch = clamp(1024, 2 ** round(math.log2(max(1.0, 32 * length))), 65536)
    return Config(
        data=data,
        model=model_section(data.sources[0], len(data.sources) - 1, reasons),
        training=TrainingConfig(batch_tokens=batch, metric=metrics[0]),
        evaluation=EvaluationConfig(metrics=metrics),
    )


def with_augmentation(source: Any, recipe: Any, length: float) -> tuple[Any, float]:  # noqa: ANN401 (any section of files)
    """The section with the augmentation of a recipe for the same kind of files, and the mean length with it."""
    if source.kind != recipe.kind:
        return source, length
    changes = {key: getattr(recipe, key) for key in AUGMENTATION if hasattr(recipe, key)}
    if source.kind == "audio" and length < SHORT_SOUND:
        changes["step"] = recipe.step
        length *= source.step / recipe.step
    return source.model_copy(update=changes), length


def without_ctc(base: Config, seen: Evidence, length: float, reasons: list[str]) -> Config:
    """The recipe without the CTC loss if the front end leaves too few vectors for the targets."""
    assert isinstance(base.model, EncoderDecoderConfig)
    if not base.model.ctc or length >= CTC_POSITIONS * seen.target_tokens.mean:
        return base
    reasons.append(f"model.ctc 0: {length:.0f} positions are too few for {seen.target_tokens.mean:.0f} tokens")
    return base.model_copy(update={"model": base.model.model_copy(update={"ctc": 0.0})})


def source_section(table: Columns, data: DataConfig, pairs: list[Pair], reasons: list[str]) -> tuple[Any, float]:
    """The configuration of the files, and their mean length in positions."""
    source = data.sources[0]
    cells = list(dict.fromkeys(pair.cells[0] for pair in pairs))[:SAMPLE_FILES]
    if table.kind == "image" and (shapes := image_shapes(cells)):
        texts = {pair.cells[0]: pair.target for pair in pairs}
        source = source.model_copy(update=image_size(shapes, texts, reasons))
    if table.kind == "audio":
        source = source.model_copy(update=sample_rate(cells, reasons))
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


def sample_rate(cells: list[str], reasons: list[str]) -> dict[str, Any]:
    """The usual rate of the recordings if it is below 16 kHz, with as many mel bands as suit it."""
    from antiphon.data.audio import read_rate

    rates = Counter(rate for cell in cells if (rate := read_rate(cell)) is not None)
    usual, default = max(rates, key=lambda rate: rates[rate], default=0), AudioConfig.model_fields["rate"].default
    if not 1000 <= usual < default:
        return {}
    mels = 40 if usual <= LOW_RATE else 64
    reasons.append(
        f"data.source.rate {usual}, mels {mels}: {rates[usual]} of {rates.total()} recordings have that rate"
    )
    return {"rate": usual, "mels": mels}


def image_size(shapes: Shapes, texts: dict[str, str], reasons: list[str]) -> dict[str, Any]:
    """Lines of text keep their width and become grey; other images become squares."""
    width, height = (float(np.median([shape[side] for shape in shapes.values()])) for side in (0, 1))
    if why := line_reason(shapes, texts):
        rows = int(clamp(16, round_up(min(height, 48), 8), 48))
        reasons.append(f"data.source.width null, height {rows}: {why}, as of lines of text")
        return {"height": rows, "width": None, "colour": False}
    side = int(clamp(32, round_up(min(max(width, height), 128), 16), 128))
    reasons.append(f"data.source.height and width {side}: as large as most images, at most 128")
    return {"height": side, "width": side}


def line_reason(shapes: Shapes, texts: dict[str, str]) -> str:
    """The reason to take images for lines of text; empty if there is none."""
    aspects = np.array([width / height for width, height in shapes.values()])
    lengths = np.array([len(texts[cell]) for cell in shapes])
    if np.median(aspects) > LINE_ASPECT:
        return "wide images"
    if len(shapes) < MIN_SHAPES or lengths.std() == 0 or np.median(aspects) <= 1:
        return ""
    few = len({character for cell in shapes for character in texts[cell]}) <= FEW_CHARACTERS
    if aspects.std() == 0:
        return "images wider than high, with texts of a few characters" if few else ""
    related = float(np.corrcoef(aspects, lengths)[0, 1])
    return "images that are the wider, the longer their text" if related >= MIN_RELATED else ""


def image_shapes(cells: list[str]) -> Shapes:
    """The width and height of each image that can be read."""
    from antiphon.data.image import open_picture

    shapes: Shapes = {}
    for cell in cells:
        try:
            with open_picture(cell) as image:
                shapes[cell] = image.size
        except UnreadableError:
            continue
    return shapes


def file_lengths(source: Any, cells: list[str]) -> list[int]:  # noqa: ANN401 (any section of files)
    """The lengths of the files that can be read, in positions."""
    from antiphon.data.build_source import file_source

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
