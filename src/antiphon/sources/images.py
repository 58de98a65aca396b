"""Pictures as sources: a row of columns of pixels."""
# H height, W width, C colours

from __future__ import annotations

import numpy as np

from antiphon.config.image import ImageConfig
from antiphon.sources.pixels import fitted, open_picture, scaled_width
from antiphon.sources.reading import Array, Random
from antiphon.sources.variation import Variation

__all__ = ["ImageReader", "normalised", "shown"]


class ImageReader:
    """A picture file becomes [W, H C]: for each column its pixels from the top, their colours side by side."""

    def __init__(self, config: ImageConfig) -> None:
        self.config = config

    @property
    def size(self) -> int:
        return self.config.height * (3 if self.config.colour else 1)

    def length(self, cell: str) -> int:
        with open_picture(cell) as image:
            return self.config.width or scaled_width(image, self.config.height)

    def read(self, cell: str, chance: Random | None = None) -> Array:
        config = self.config
        with open_picture(cell) as image:
            pixels = fitted(image, colour=config.colour, height=config.height, width=config.width)
        if chance is not None and (variation := Variation.drawn(config, chance, whole=config.width is None)):
            pixels = variation.apply(pixels)
        return normalised(pixels.swapaxes(0, 1)).reshape(pixels.shape[1], self.size)

    def picture(self, values: Array) -> Array:
        """What was read [W, H C], as it looks: [H, W] or [H, W, 3] from 0 to 1."""
        return shown(values.reshape(len(values), self.config.height, -1).swapaxes(0, 1))

    def json(self) -> str:
        return self.config.model_dump_json()


def normalised(pixels: Array) -> Array:
    """From bytes to -1 (black) .. 1 (white)."""
    return np.ascontiguousarray(pixels, dtype=np.float32) / np.float32(127.5) - np.float32(1.0)


def shown(values: Array) -> Array:
    """From -1 .. 1 [..., C] to 0 .. 1, without the axis of a single colour."""
    shades = (values + 1.0) / 2.0
    return shades[..., 0] if shades.shape[-1] == 1 else shades
