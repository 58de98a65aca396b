"""Attention to sources that are no single text: pictures, sounds, vectors, videos, or several sources."""
# T words, S steps of a source, S' vectors that are looked at

from __future__ import annotations

from pathlib import Path

from antiphon.config.image import FramesConfig, ImageConfig
from antiphon.config.models import EncoderDecoderConfig
from antiphon.config.schema import Config
from antiphon.config.sound import AudioConfig, FeaturesConfig, LinearConfig
from antiphon.config.sources import front_of, fronts_of
from antiphon.decoding.generation import Generation, Part
from antiphon.encoders.sound import SubsampledFront
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
        _draw_part(part, config, generation, file)
    return paths


def _draw_part(part: Part, config: Config, generation: Generation, path: Path) -> None:
    """What was too long is drawn as far as it was read."""
    assert generation.weights is not None
    source = config.data.sources[part.source]
    here = slice(part.first, part.last + 1)
    weights, words, title = generation.weights[:, here], generation.tokens, generation.text
    match source:
        case ImageConfig():
            image = ImageReader(source)
            grid = part.grid or (1, weights.shape[1])
            seen = image.picture(image.read(part.text)[: source.max_length])
            draw_cells(seen, weights.reshape(len(words), *grid), words, path, title)
        case FramesConfig():
            video, factor = FramesReader(source), _factor(config, part.source)
            frames = video.picture(video.read(part.text)[: source.max_length])
            each = weights.repeat(factor, axis=1)[:, : len(frames)] / factor  # what are read as one share its weight
            draw_frames(frames, each, words, path, title)
        case AudioConfig():
            steps, factor = AudioReader(source).read(part.text)[: source.max_length], _factor(config, part.source)
            draw_spectrogram(steps, weights, words, path, title, factor=factor, seconds=source.step / 1000)
        case FeaturesConfig():
            features = FeaturesReader(source, FeaturesReader.first_width(part.text))
            steps, factor = features.read(part.text)[: source.max_length], _factor(config, part.source)
            draw_spectrogram(steps, weights, words, path, title, factor=factor)
        case _:
            draw_attention(weights, generation.source_tokens[here], words, path, title=title)


def _factor(config: Config, number: int) -> int:
    """Steps, vectors or frames of a source for which one vector of its front stands."""
    assert isinstance(config.model, EncoderDecoderConfig)
    chosen = fronts_of(config.model, len(config.data.sources))[number]
    if isinstance(chosen, LinearConfig):
        return chosen.stack
    return SubsampledFront.factor if front_of(config.data.sources[number].kind, chosen) == "subsampled" else 1
