"""Pictures and videos as sources, and the fronts that turn them into vectors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from antiphon.config.section import Natural, Positive, Section, Share

__all__ = ["CellsConfig", "FrameCellsConfig", "FramesConfig", "ImageConfig", "PatchesConfig", "PictureConfig"]

Channels = Annotated[list[Positive], Field(min_length=1)]

KINDS = "what the column holds: text | image | audio | features | frames"
FRONTS = "cells | patches | subsampled | linear | frame-cells"
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

    kind: Literal["cells"] = Field("cells", description=FRONTS)
    channels: Channels = Field([32, 64, 128], description=STAGES)
    blocks: Natural = Field(1, description=BLOCKS)
    wide: Natural = Field(0, description="of the stages, so many of the last halve the height only (narrow letters)")
    columns: bool = Field(False, description="one vector for each column of cells (lines of text) instead of each cell")
    whole: bool = Field(False, description="tell each vector the most that any cell of the picture says, too")
    dropout: Share = Field(0.1, description=DROPPED)


class PatchesConfig(Section):
    """Squares of a picture, each one vector."""

    kind: Literal["patches"] = Field("patches", description=FRONTS)
    patch: Positive = Field(16, description="pixels along each side of a square")
    dropout: Share = Field(0.1, description=DROPPED)


class FrameCellsConfig(Section):
    """The network of `cells` over each frame of a video; a frame's vector is made of all its cells."""

    kind: Literal["frame-cells"] = Field("frame-cells", description=FRONTS)
    channels: Channels = Field([16, 32, 64], description=STAGES)
    blocks: Natural = Field(1, description=BLOCKS)
    dropout: Share = Field(0.1, description=DROPPED)
