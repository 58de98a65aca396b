"""From the configuration to what reads a source, and back from a model folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from antiphon.config.schema import DataConfig, SourceConfig, TextConfig
from antiphon.config.sources import AudioConfig, FeaturesConfig, FramesConfig, ImageConfig
from antiphon.data.build_tokenizer import build_tokenizer, load_tokenizer
from antiphon.data.source import FileSource, Reader, SeveralSources, SingleSource, Source, UnreadableError
from antiphon.data.tokenizers import damaged, read_json
from antiphon.errors import ModelFolderError

__all__ = ["combine_sources", "file_source", "is_file", "load_source", "one_text"]


def is_file(config: SourceConfig) -> bool:
    """Whether its cells are paths."""
    return not isinstance(config, TextConfig)


def one_text(data: DataConfig) -> bool:
    """Whether there is one text to read: a source, or that of a language model."""
    return data.source is None or isinstance(data.source, TextConfig)


def combine_sources(sources: Sequence[SingleSource]) -> Source:
    """Several sources as one; a single one as it is."""
    return sources[0] if len(sources) == 1 else SeveralSources(sources)


def file_source(config: SourceConfig, cells: Iterable[str]) -> FileSource:
    """What reads the files of a column; of `cells` the first that can be read tells how wide all vectors are."""
    width = _first_width(cells) if isinstance(config, FeaturesConfig) else 0
    return FileSource(config.kind, _reader(config, width))


def load_source(path: Path, data: DataConfig) -> Source:
    """Read what `save` wrote."""
    if one_text(data):
        return load_tokenizer(path)
    content = read_json(path)
    with damaged(path):
        written = content["sources"] if isinstance(data.source, list) else [content]
        if len(written) != len(data.sources):
            raise ValueError(f"{len(written)} sources, but config.yaml has {len(data.sources)}")
        return combine_sources([_built(*pair) for pair in zip(data.sources, written, strict=True)])


def _built(config: SourceConfig, content: dict[str, Any]) -> SingleSource:
    if isinstance(config, TextConfig):
        return build_tokenizer(content)
    if content["kind"] != config.kind:
        raise ValueError(f"of kind {content['kind']}, but config.yaml says {config.kind}")
    return FileSource(config.kind, _reader(config, int(content.get("width") or 0)))


def _reader(config: SourceConfig, width: int) -> Reader:
    """Only vectors from files have a width that no configuration knows."""
    if isinstance(config, FeaturesConfig):
        from antiphon.data.arrays import FeaturesReader

        return FeaturesReader(config, width)
    if isinstance(config, AudioConfig):
        from antiphon.data.audio import AudioReader

        return AudioReader(config)
    if isinstance(config, ImageConfig):
        from antiphon.data.image import ImageReader

        return ImageReader(config)
    if isinstance(config, FramesConfig):
        from antiphon.data.video import FramesReader

        return FramesReader(config)
    raise ModelFolderError(f"{config.kind}: a text has a tokenizer, no reader")


def _first_width(cells: Iterable[str]) -> int:
    from antiphon.data.arrays import FeaturesReader

    for cell in cells:
        try:
            return FeaturesReader.first_width(cell)
        except UnreadableError:
            continue
    return 1  # no file can be read, which will be said of each
