"""The keys of sources that are files (image, frames, audio, features), and of the front ends that read them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AudioConfig",
    "CellsConfig",
    "FeaturesConfig",
    "FrameCellsConfig",
    "FramesConfig",
    "ImageConfig",
    "LinearConfig",
    "Natural",
    "PatchesConfig",
    "PictureConfig",
    "Positive",
    "Section",
    "Share",
    "SubsampledConfig",
    "with_kinds",
]

Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class Section(BaseModel):
    """A part of the configuration: unknown keys and wrong types are errors.

    A key that is a word of Python has a second name here, for Python alone; a file is read without them (problems.py).
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


def with_kinds(section: Any, usual: dict[str, str]) -> Any:  # noqa: ANN401 (whatever stood in the file)
    """A section as it is written; its parts (name -> usual kind) that name no kind are of the usual one.

    A part may also be a list of parts.
    """
    if not isinstance(section, dict):
        return section
    written = {name: section[name] for name in usual if name in section}
    return section | {name: _with_kind(part, usual[name]) for name, part in written.items()}


def _with_kind(part: Any, kind: str) -> Any:  # noqa: ANN401
    if isinstance(part, list):
        return [_with_kind(one, kind) for one in part]
    return {"kind": kind, **part} if isinstance(part, dict) else part


# Pictures and videos as sources, and the fronts that turn them into vectors.

Channels = Annotated[list[Positive], Field(min_length=1)]

KINDS = "what the column holds: text | image | audio | features | frames"
PICTURE_FRONTS = "cells | patches | subsampled | linear | frame-cells"
STAGES = "width of each stage of convolutions; each halves height and width"
BLOCKS = "residual blocks after the first convolution of each stage"
DROPPED = "share of values set to 0 in training, on the vectors that come out"


class PictureConfig(Section):
    """What pictures and the frames of videos have in common."""

    kind: str = Field(description=KINDS)
    column: int | str = Field(0, description="number (from 0) or name of the column of paths")
    folder: str | None = Field(None, description="where the paths begin; null: at the folder of the data file")
    colour: bool = Field(True, description="true: red, green and blue | false: grey")
    shift: Share = Field(0.0, description="training: move it at random by up to this share of its height, each way")
    scale: Annotated[float, Field(ge=0.0, le=0.9)] = Field(
        0.0, description="training: make it smaller or larger at random by up to this share; variable width: smaller"
    )
    contrast: Share = Field(
        0.0, description="training: shades darker or lighter at random, by a gamma of up to 1 + this"
    )


class ImageConfig(PictureConfig):
    """A picture: a row of columns of pixels."""

    kind: Literal["image"] = Field("image", description=KINDS)
    height: Positive = Field(128, description="pixels from top to bottom; every picture is resized to that")
    width: Positive | None = Field(
        128, description="pixels across: aspect kept, the rest is filled | null: as wide as it is (lines of text)"
    )
    max_length: Positive = Field(2048, description="wider pictures (columns of pixels at this height) are left out")


class FramesConfig(PictureConfig):
    """A video: a row of pictures, in a folder or an array."""

    kind: Literal["frames"] = Field("frames", description=KINDS)
    height: Positive = Field(64, description="pixels from top to bottom; every frame is resized to that")
    width: Positive = Field(64, description="pixels across: aspect kept, the rest is filled")
    max_length: Positive = Field(200, description="videos of more frames are left out and counted")


class CellsConfig(Section):
    """A residual network of convolutions over a picture, whose cells are the vectors."""

    kind: Literal["cells"] = Field("cells", description=PICTURE_FRONTS)
    channels: Channels = Field([32, 64, 128], description=STAGES)
    blocks: Natural = Field(1, description=BLOCKS)
    wide: Natural = Field(0, description="of the stages, so many of the last halve the height only (narrow letters)")
    columns: bool = Field(False, description="one vector for each column of cells (lines of text) instead of each cell")
    whole: bool = Field(False, description="tell each vector the most that any cell of the picture says, too")
    dropout: Share = Field(0.1, description=DROPPED)


class PatchesConfig(Section):
    """Squares of a picture, each one vector."""

    kind: Literal["patches"] = Field("patches", description=PICTURE_FRONTS)
    patch: Positive = Field(16, description="pixels along each side of a square")
    dropout: Share = Field(0.1, description=DROPPED)


class FrameCellsConfig(Section):
    """The network of `cells` over each frame of a video; a frame's vector is made of all its cells."""

    kind: Literal["frame-cells"] = Field("frame-cells", description=PICTURE_FRONTS)
    channels: Channels = Field([16, 32, 64], description=STAGES)
    blocks: Natural = Field(1, description=BLOCKS)
    dropout: Share = Field(0.1, description=DROPPED)


# The keys of sounds and of vectors in files, and of the fronts that read them.

SOUND_FRONTS = "cells | patches | subsampled (convolutions, one vector for four) | linear (W x + b) | frame-cells"
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

    kind: Literal["subsampled"] = Field("subsampled", description=SOUND_FRONTS)
    channels: Positive = Field(256, description="values that the convolutions find at each position")
    kernel: Annotated[int, Field(ge=3)] = Field(5, description="positions that one convolution sees; odd")
    dropout: Share = Field(0.1, description="share of values set to 0 in training, after each layer")


class LinearConfig(Section):
    """One linear layer."""

    kind: Literal["linear"] = Field("linear", description=SOUND_FRONTS)
    stack: Positive = Field(1, description="so many neighbouring vectors are read as one; 1: each on its own")
    dropout: Share = Field(0.1, description="share of values set to 0 in training")
