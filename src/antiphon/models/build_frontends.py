"""The table of front ends for sources that are no texts: from configuration to numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from antiphon.config import sources
from antiphon.config.networks import FrontEndConfig
from antiphon.config.schema import SourceConfig, front_kind
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
    affixes: Tensor | None = None  # the code of each source token, if words are known by their affixes


# Each takes the numbers of its source, the size of a vector, and the keys of its section.
FRONT_ENDS: dict[str, Callable[..., FrontEnd]] = {
    "cells": ResNetFrontEnd,
    "patches": PatchFrontEnd,
    "subsampled": SubsampledFrontEnd,
    "linear": LinearFrontEnd,
    "frame-cells": FrameFrontEnd,
}
DEFAULTS: dict[str, type[Any]] = {
    "cells": sources.CellsConfig,
    "subsampled": sources.SubsampledConfig,
    "linear": sources.LinearConfig,
    "frame-cells": sources.FrameCellsConfig,
}


def build_front_end(source: SourceSpec, chosen: FrontEndConfig | None, size: int) -> FrontEnd:
    """The front end chosen for a source, or the default of its kind."""
    kind = front_kind(source.config.kind, chosen)
    options = (chosen or DEFAULTS[kind]()).model_dump(exclude={"kind"})
    return FRONT_ENDS[kind](size=size, **_source_numbers(kind, source), **options)


def _source_numbers(kind: str, source: SourceSpec) -> dict[str, int | float | None]:
    """Height, width and colours of images; for other front ends the width of a vector and the duration of a step."""
    config = source.config
    if isinstance(config, sources.PictureConfig) and kind != "linear":
        names = ("height", "width") if kind == "frame-cells" else ("height",)
        return {"colours": 3 if config.colour else 1, **{name: getattr(config, name) for name in names}}
    seconds = config.step / 1000 if isinstance(config, sources.AudioConfig) else None
    return {"inputs": source.size, "seconds": seconds}
