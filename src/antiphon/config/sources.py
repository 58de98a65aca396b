"""The keys of sources that are files (image, frames, audio, features), and of the front ends that read them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from antiphon.config.sections import Natural, Odd, Positive, Section, Share, default_kind

__all__ = [
    "AudioConfig", "CellsConfig", "FeaturesConfig", "FramesConfig", "FrontEndConfig", "ImageConfig", "LinearConfig",
    "PictureConfig",
]  # fmt: skip


Channels = Annotated[list[Positive], Field(min_length=1)]

KINDS = "what the column holds: text | image | audio | features | frames"
COLUMN = "number (from 0) or name of the column of file paths"
FOLDER = "folder that the paths are relative to; null: the folder of the data file"
FRONT_ENDS = "cells | patches | subsampled | linear | frame-cells"
STAGES = "channels of each stage of convolutions; a stage halves height and width"
BLOCKS = "residual blocks after the first convolution of each stage"
DROPOUT = "dropout on the vectors that come out"


class PictureConfig(Section):
    """The keys that pictures and frames of videos have in common."""

    kind: str = Field(description=KINDS)
    column: int | str = Field(0, description=COLUMN)
    folder: str | None = Field(None, description=FOLDER)
    colour: bool = Field(True, description="true: RGB | false: greyscale")
    shift: Share = Field(
        0.0, description="augmentation: largest random shift in each direction, as a share of the height"
    )
    scale: Annotated[float, Field(ge=0.0, le=0.9)] = Field(
        0.0, description="augmentation: largest random change of size, as a share; with variable width only smaller"
    )
    contrast: Share = Field(0.0, description="augmentation: random gamma correction, with a gamma of up to 1 + this")


class ImageConfig(PictureConfig):
    """A picture: a row of columns of pixels."""

    kind: Literal["image"] = Field("image", description=KINDS)
    height: Positive = Field(128, description="every picture is resized to this height, in pixels")
    width: Positive | None = Field(
        128, description="width in pixels, aspect ratio kept, the rest padded | null: variable width (lines of text)"
    )
    max_length: Positive = Field(2048, description="pictures wider than this after resizing are left out and counted")


class FramesConfig(PictureConfig):
    """A video: a row of pictures, in a folder or an array."""

    kind: Literal["frames"] = Field("frames", description=KINDS)
    height: Positive = Field(64, description="every frame is resized to this height, in pixels")
    width: Positive = Field(64, description="width in pixels, aspect ratio kept, the rest padded")
    max_length: Positive = Field(200, description="videos with more frames than this are left out and counted")


class CellsConfig(Section):
    """A residual convolutional network over a picture; each cell of its last feature map is a vector."""

    kind: Literal["cells"] = Field("cells", description=FRONT_ENDS)
    channels: Channels = Field([32, 64, 128], description=STAGES)
    blocks: Natural = Field(1, description=BLOCKS)
    wide: Natural = Field(0, description="the last n stages halve the height only, so that narrow letters stay apart")
    columns: bool = Field(False, description="true: one vector for each column of cells (lines of text), not each cell")
    whole: bool = Field(False, description="true: global max pooling over the picture is concatenated to each cell")
    dropout: Share = Field(0.1, description=DROPOUT)


class PatchesConfig(Section):
    """Squares of a picture, each one vector."""

    kind: Literal["patches"] = Field("patches", description=FRONT_ENDS)
    patch: Positive = Field(16, description="side of a square, in pixels")
    dropout: Share = Field(0.1, description=DROPOUT)


class FrameCellsConfig(Section):
    """The network of `cells` over each frame of a video; a frame's vector is made of all its cells."""

    kind: Literal["frame-cells"] = Field("frame-cells", description=FRONT_ENDS)
    channels: Channels = Field([16, 32, 64], description=STAGES)
    blocks: Natural = Field(1, description=BLOCKS)
    dropout: Share = Field(0.1, description=DROPOUT)


# Sound, and vectors in files. SpecAugment hides stretches of an example while training.

COUNT = "number of masks per example"


class TimeMaskConfig(Section):
    """SpecAugment along time."""

    count: Positive = Field(description=COUNT)
    width: Positive = Field(20, description="longest mask in steps, at most a fifth of the example")


class BandMaskConfig(Section):
    """SpecAugment along the mel bands."""

    count: Positive = Field(description=COUNT)
    width: Positive = Field(10, description="widest mask in bands, at most half of them")


class ValueMaskConfig(Section):
    """SpecAugment along the values of a vector."""

    count: Positive = Field(description=COUNT)
    width: Positive = Field(2, description="widest mask in neighbouring values, at most half of them")


class AudioMasksConfig(Section):
    """SpecAugment for sound."""

    time: TimeMaskConfig | None = Field(None, description="masks along time: {count, width}; null: none")
    mels: BandMaskConfig | None = Field(None, description="masks along the bands: {count, width}; null: none")


class FeatureMasksConfig(Section):
    """SpecAugment for vectors."""

    time: TimeMaskConfig | None = Field(None, description="masks along time: {count, width}; null: none")
    values: ValueMaskConfig | None = Field(None, description="masks along the values: {count, width}; null: none")


class AudioConfig(Section):
    """A column of WAV or FLAC files; a sound is a row of log-mel spectra."""

    kind: Literal["audio"] = Field("audio", description=KINDS)
    column: int | str = Field(0, description=COLUMN)
    folder: str | None = Field(None, description=FOLDER)
    rate: Annotated[int, Field(ge=1000, le=192_000)] = Field(
        16_000, description="sample rate in Hz; other sounds are resampled, channels are averaged"
    )
    mels: Annotated[int, Field(gt=0, le=256)] = Field(80, description="mel bands of a spectrum")
    window: Annotated[float, Field(ge=1.0, le=1000.0)] = Field(25.0, description="window of a spectrum, in ms")
    step: Annotated[float, Field(ge=1.0, le=1000.0)] = Field(10.0, description="hop between spectra, in ms")
    max_length: Positive = Field(3000, description="recordings with more frames than this are left out and counted")
    masks: AudioMasksConfig = Field(default_factory=AudioMasksConfig, description="augmentation: SpecAugment")


class FeaturesConfig(Section):
    """A column of arrays [T, D] in .npy or .npz files."""

    kind: Literal["features"] = Field("features", description=KINDS)
    column: int | str = Field(0, description=COLUMN)
    folder: str | None = Field(None, description=FOLDER)
    max_length: Positive = Field(2000, description="arrays with more vectors than this are left out and counted")
    ordered: bool = Field(True, description="false: a set; the vectors are sorted, so their order has no effect")
    normalise: bool = Field(False, description="normalise each value to mean 0 and variance 1 within an example")
    masks: FeatureMasksConfig = Field(default_factory=FeatureMasksConfig, description="augmentation: SpecAugment")


class SubsampledConfig(Section):
    """Two convolutions, each of which halves the time."""

    kind: Literal["subsampled"] = Field("subsampled", description=f"{FRONT_ENDS}; subsampled: one vector for four")
    channels: Positive = Field(256, description="channels of the convolutions")
    kernel: Odd = Field(5, description="width of a convolution's kernel; odd")
    dropout: Share = Field(0.1, description="dropout after each layer")


class LinearConfig(Section):
    """One linear layer."""

    kind: Literal["linear"] = Field("linear", description=f"{FRONT_ENDS}; linear: W x + b")
    stack: Positive = Field(1, description="neighbouring vectors that are concatenated to one; 1: none")
    dropout: Share = Field(0.1, description="dropout on the vectors that come out")


# Front ends of sources that are files.

FrontEndConfig = Annotated[
    CellsConfig | PatchesConfig | SubsampledConfig | LinearConfig | FrameCellsConfig,
    Field(discriminator="kind"),
    default_kind(),
]
