"""The table of front ends for sources that are no texts: configuration → numbers → front end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from antiphon.config.networks import FrontConfig
from antiphon.config.schema import SourceConfig, front_kind
from antiphon.config.sources import (
    AudioConfig,
    CellsConfig,
    FrameCellsConfig,
    FramesConfig,
    ImageConfig,
    LinearConfig,
    PatchesConfig,
    PictureConfig,
    SubsampledConfig,
)
from antiphon.errors import ConfigError
from antiphon.models.frontends.audio_frontend import LinearFrontEnd, SubsampledFrontEnd
from antiphon.models.frontends.frontend import FrontEnd
from antiphon.models.frontends.image_frontend import FrameFrontEnd, PatchFrontEnd, ResNetFrontEnd

__all__ = ["FRONT_ENDS", "SourceSpec", "build_front_end"]


@dataclass(frozen=True)
class SourceSpec:
    """One source of a model: the size of its vocabulary, or the width of its vectors."""

    config: SourceConfig
    size: int
    copied_as: Tensor | None = None  # the target token of each source token, for a decoder that copies

    @property
    def seconds(self) -> float | None:
        """The duration of a step of audio."""
        return self.config.step / 1000 if isinstance(self.config, AudioConfig) else None


def _colours(config: PictureConfig) -> int:
    return 3 if config.colour else 1


def _subsampled(config: SubsampledConfig, source: SourceSpec, size: int) -> FrontEnd:
    return SubsampledFrontEnd(
        inputs=source.size,
        size=size,
        channels=config.channels,
        kernel=config.kernel,
        dropout=config.dropout,
        seconds=source.seconds,
    )


def _linear(config: LinearConfig, source: SourceSpec, size: int) -> FrontEnd:
    return LinearFrontEnd(
        inputs=source.size, size=size, stack=config.stack, dropout=config.dropout, seconds=source.seconds
    )


def _cells(config: CellsConfig, source: SourceSpec, size: int) -> FrontEnd:
    image = source.config
    assert isinstance(image, ImageConfig)
    return ResNetFrontEnd(
        size=size,
        height=image.height,
        colours=_colours(image),
        channels=config.channels,
        blocks=config.blocks,
        wide=config.wide,
        columns=config.columns,
        whole=config.whole,
        dropout=config.dropout,
    )


def _patches(config: PatchesConfig, source: SourceSpec, size: int) -> FrontEnd:
    image = source.config
    assert isinstance(image, ImageConfig)
    return PatchFrontEnd(
        size=size, height=image.height, colours=_colours(image), patch=config.patch, dropout=config.dropout
    )


def _frame_cells(config: FrameCellsConfig, source: SourceSpec, size: int) -> FrontEnd:
    video = source.config
    assert isinstance(video, FramesConfig)
    return FrameFrontEnd(
        size=size,
        height=video.height,
        width=video.width,
        colours=_colours(video),
        channels=config.channels,
        blocks=config.blocks,
        dropout=config.dropout,
    )


# Each takes its configuration, the source, and the size of a vector.
FRONT_ENDS: dict[str, Callable[[Any, SourceSpec, int], FrontEnd]] = {
    "cells": _cells,
    "patches": _patches,
    "subsampled": _subsampled,
    "linear": _linear,
    "frame-cells": _frame_cells,
}
DEFAULTS: dict[str, Callable[[], Any]] = {
    "cells": CellsConfig,
    "subsampled": SubsampledConfig,
    "linear": LinearConfig,
    "frame-cells": FrameCellsConfig,
}


def build_front_end(source: SourceSpec, chosen: FrontConfig | None, size: int) -> FrontEnd:
    """The front end chosen for a source, or the default of its kind."""
    kind = front_kind(source.config.kind, chosen)
    try:
        return FRONT_ENDS[kind](chosen or DEFAULTS[kind](), source, size)
    except ValueError as error:
        raise ConfigError(f"model.front: {error}") from error
