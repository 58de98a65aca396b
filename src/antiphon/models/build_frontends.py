"""The closed table of fronts: how a source that is no text becomes vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from antiphon.config.checks_sources import front_of
from antiphon.config.networks import FrontConfig
from antiphon.config.schema import SourceConfig
from antiphon.config.sources import (
    AudioConfig,
    CellsConfig,
    FrameCellsConfig,
    FramesConfig,
    ImageConfig,
    LinearConfig,
    PatchesConfig,
    SubsampledConfig,
)
from antiphon.errors import ConfigError
from antiphon.models.frontends.audio_frontend import LinearFront, SubsampledFront
from antiphon.models.frontends.image_frontend import CellsFront, FrameCellsFront, PatchesFront

__all__ = ["FRONTS", "Inputs", "build_front"]


@dataclass(frozen=True)
class Inputs:
    """What comes from one source: ids of so many tokens, or vectors of this width."""

    config: SourceConfig
    size: int
    copied_as: Tensor | None = None  # the target token that each source token is, for a decoder that copies

    @property
    def seconds(self) -> float | None:
        """From one vector of a sound to the next."""
        return self.config.step / 1000 if isinstance(self.config, AudioConfig) else None


def _subsampled(config: SubsampledConfig, inputs: Inputs, size: int) -> nn.Module:
    return SubsampledFront(config=config, inputs=inputs.size, size=size, seconds=inputs.seconds)


def _linear(config: LinearConfig, inputs: Inputs, size: int) -> nn.Module:
    return LinearFront(config=config, inputs=inputs.size, size=size, seconds=inputs.seconds)


def _cells(config: CellsConfig, inputs: Inputs, size: int) -> nn.Module:
    assert isinstance(inputs.config, ImageConfig)
    return CellsFront(config=config, reader=inputs.config, size=size)


def _patches(config: PatchesConfig, inputs: Inputs, size: int) -> nn.Module:
    assert isinstance(inputs.config, ImageConfig)
    return PatchesFront(config=config, reader=inputs.config, size=size)


def _frame_cells(config: FrameCellsConfig, inputs: Inputs, size: int) -> nn.Module:
    assert isinstance(inputs.config, FramesConfig)
    return FrameCellsFront(config=config, reader=inputs.config, size=size)


# Each takes its configuration, what comes from the source, and the size of a vector; a text has a table of tokens.
FRONTS: dict[str, Callable[[Any, Inputs, int], nn.Module]] = {
    "cells": _cells,
    "patches": _patches,
    "subsampled": _subsampled,
    "linear": _linear,
    "frame-cells": _frame_cells,
}
USUAL: dict[str, Callable[[], Any]] = {
    "cells": CellsConfig,
    "subsampled": SubsampledConfig,
    "linear": LinearConfig,
    "frame-cells": FrameCellsConfig,
}


def build_front(inputs: Inputs, chosen: FrontConfig | None, size: int) -> nn.Module:
    """The front that is chosen for a source, or the usual one."""
    kind = front_of(inputs.config.kind, chosen)
    try:
        return FRONTS[kind](chosen or USUAL[kind](), inputs, size)
    except ValueError as error:
        raise ConfigError(f"model.front: {error}") from error
