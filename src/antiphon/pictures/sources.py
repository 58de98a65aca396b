"""Attention to sources that are no single text: pictures, sounds, vectors, videos, or several sources."""
# T words, S steps of a source, S' vectors that are looked at

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.config.image import FramesConfig, ImageConfig
from antiphon.config.schema import Config, SourceConfig
from antiphon.config.sound import AudioConfig, FeaturesConfig
from antiphon.decoding.generation import Generation, Part
from antiphon.pictures.attention import draw_attention
from antiphon.pictures.cells import draw_cells
from antiphon.pictures.frames import draw_frames
from antiphon.pictures.spectrogram import draw_spectrogram
from antiphon.sources.features import FeaturesReader
from antiphon.sources.frames import FramesReader
from antiphon.sources.images import ImageReader
from antiphon.sources.sound import AudioReader

__all__ = ["draw_sources", "picture_paths"]


def picture_paths(parts: int, path: Path) -> list[Path]:
    """A picture for each part of the source: the path itself, or with the part's number, from 1, before the suffix."""
    return [path] if parts == 1 else [path.with_stem(f"{path.stem}-{number}") for number in range(1, parts + 1)]


def draw_sources(generation: Generation, config: Config, path: Path) -> list[Path]:
    """Where the model looked in each part of the source, word by word; `generation` has weights. Returns the files."""
    assert generation.weights is not None
    paths = picture_paths(len(generation.parts), path)
    for part, file in zip(generation.parts, paths, strict=True):
        _draw_part(part, config.data.sources[part.source], generation, file)
    return paths


def _draw_part(part: Part, source: SourceConfig, generation: Generation, path: Path) -> None:
    assert generation.weights is not None
    here = slice(part.first, part.last + 1)
    weights, words, title = generation.weights[:, here], generation.tokens, generation.text
    match source:
        case ImageConfig():
            image = ImageReader(source)
            grid = part.grid or (1, weights.shape[1])
            draw_cells(image.picture(image.read(part.text)), weights.reshape(len(words), *grid), words, path, title)
        case FramesConfig():
            video = FramesReader(source)
            draw_frames(video.picture(video.read(part.text)), weights, words, path, title)
        case AudioConfig():
            steps = AudioReader(source).read(part.text)
            _draw_steps(steps, weights, words, path, title, seconds=source.step / 1000)
        case FeaturesConfig():
            steps = FeaturesReader(source, FeaturesReader.first_width(part.text)).read(part.text)
            _draw_steps(steps, weights, words, path, title, seconds=None)
        case _:
            draw_attention(weights, generation.source_tokens[here], words, path, title=title)


def _draw_steps(
    steps: NDArray[Any], weights: NDArray[Any], words: list[str], path: Path, title: str, *, seconds: float | None
) -> None:
    """Vector j of the S' stands for `factor` steps of the S; the front has chosen it."""
    count = weights.shape[1]
    factor = next(factor for factor in range(1, len(steps) + 1) if int(np.ceil(len(steps) / factor)) == count)
    draw_spectrogram(steps, weights, words, path, title, factor=factor, seconds=seconds)
