"""The keys of sounds and of vectors in files, and of the fronts that read them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from antiphon.config.section import Natural, Positive, Section, Share

__all__ = ["AudioConfig", "FeaturesConfig", "LinearConfig", "SubsampledConfig"]

KINDS = "what the column holds: text | image | audio | features | frames"
FRONTS = "cells | patches | subsampled (convolutions, one vector for four) | linear (W x + b) | frame-cells"
COLUMN = "number (from 0) or name of the column of paths"
FOLDER = "paths are relative to this folder; null: to the file that names them"
TIME_MASKS = "SpecAugment, in training only: so many stretches of time are hidden; 0: none"
TIME_WIDTH = "time_masks only: the longest stretch, drawn from 0 on; a fifth of the example at most"


class AudioConfig(Section):
    """A column of WAV or FLAC files; a sound is a row of log-mel spectra."""

    kind: Literal["audio"] = Field("audio", description=KINDS)
    column: int | str = Field(0, description=COLUMN)
    folder: str | None = Field(None, description=FOLDER)
    rate: Annotated[int, Field(ge=1000, le=192_000)] = Field(
        16_000, description="samples a second; sounds of another rate are resampled, channels are averaged"
    )
    mels: Annotated[int, Field(gt=0, le=256)] = Field(80, description="bands of a spectrum")
    window: Annotated[float, Field(ge=1.0, le=1000.0)] = Field(25.0, description="milliseconds one spectrum hears")
    step: Annotated[float, Field(ge=1.0, le=1000.0)] = Field(10.0, description="milliseconds from spectrum to spectrum")
    max_length: Positive = Field(3000, description="longer examples (in spectra) are left out and counted")
    time_masks: Natural = Field(0, description=TIME_MASKS)
    time_width: Positive = Field(20, description=TIME_WIDTH)
    mel_masks: Natural = Field(0, description="the same for bands: so many stretches of bands are hidden; 0: none")
    mel_width: Positive = Field(10, description="mel_masks only: the widest stretch, drawn from 0 on; half at most")


class FeaturesConfig(Section):
    """A column of arrays [T, D] in .npy or .npz files."""

    kind: Literal["features"] = Field("features", description=KINDS)
    column: int | str = Field(0, description=COLUMN)
    folder: str | None = Field(None, description=FOLDER)
    max_length: Positive = Field(2000, description="longer examples (in vectors) are left out and counted")
    ordered: bool = Field(
        True, description="false: a set; its vectors are sorted, so that their order in the file changes nothing"
    )
    normalise: bool = Field(False, description="each value of the vectors to mean 0 and variance 1 within an example")
    time_masks: Natural = Field(0, description=TIME_MASKS)
    time_width: Positive = Field(20, description=TIME_WIDTH)
    value_masks: Natural = Field(0, description="the same for values: so many stretches are hidden; 0: none")
    value_width: Positive = Field(2, description="value_masks only: the widest stretch, drawn from 0 on; half at most")


class SubsampledConfig(Section):
    """Two convolutions, each of which halves the time."""

    kind: Literal["subsampled"] = Field("subsampled", description=FRONTS)
    channels: Positive = Field(256, description="values that the convolutions find at each position")
    kernel: Annotated[int, Field(ge=3)] = Field(5, description="positions that one convolution sees; odd")
    dropout: Share = Field(0.1, description="share of values set to 0 in training, after each layer")


class LinearConfig(Section):
    """One linear layer."""

    kind: Literal["linear"] = Field("linear", description=FRONTS)
    stack: Positive = Field(1, description="so many neighbouring vectors are read as one; 1: each on its own")
    dropout: Share = Field(0.1, description="share of values set to 0 in training")
