"""Data augmentation: SpecAugment for sound and vectors, random shifts, scales and contrast for pictures."""
# S steps, D width of a vector
# H height, W width, C colours

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from antiphon.config.sources import PictureConfig
from antiphon.data.source import Array, Random

__all__ = ["Variation", "hide_times", "hide_values", "standardised"]

LONGEST_SHARE = 5  # of an example, a stretch of time hides no more than a fifth: short sounds must stay audible
WIDEST_SHARE = 2  # nor more than half of the values

EPSILON = 1e-5  # a value that never changes becomes 0


def standardised(vectors: Array) -> Array:
    """(x - mean) / √(var + ε), each of the D values over the S steps"""
    exact = vectors.astype(np.float64)
    centred = exact - exact.mean(0)
    return np.asarray(centred / np.sqrt(exact.var(0) + EPSILON), np.float32)


def hide_times(vectors: Array, chance: Random, *, masks: int, width: int) -> Array:
    """So many stretches of up to `width` steps become the mean of the example; [S, D] stays [S, D]."""
    hidden = vectors.copy()
    for start, end in _stretches(chance, masks, min(width, len(vectors) // LONGEST_SHARE), len(vectors)):
        hidden[start:end] = vectors.mean(0)
    return hidden


def hide_values(vectors: Array, chance: Random, *, masks: int, width: int) -> Array:
    """So many stretches of up to `width` values become their means over the example."""
    hidden, size = vectors.copy(), vectors.shape[1]
    for start, end in _stretches(chance, masks, min(width, size // WIDEST_SHARE), size):
        hidden[:, start:end] = vectors[:, start:end].mean(0)
    return hidden


def _stretches(chance: Random, count: int, widest: int, room: int) -> list[tuple[int, int]]:
    """Width from U{0..widest}, then start from U{0..room - width}."""
    found = []
    for _ in range(count):
        width = int(chance.integers(0, widest, endpoint=True))
        start = int(chance.integers(0, room - width, endpoint=True))
        found.append((start, start + width))
    return found


# Random changes of a picture in training: moved, resized, of another contrast.


@dataclass(frozen=True)
class Variation:
    """What is done to one picture, or to all frames of one video."""

    right: float  # in heights
    down: float
    scale: float  # factors
    gamma: float

    @classmethod
    def drawn(cls, config: PictureConfig, chance: Random, *, whole: bool) -> Variation | None:
        """One at random; None: nothing may change. `whole`: it does not grow, which would cut off letters of a line."""
        if not (config.shift or config.scale or config.contrast):
            return None
        right, down, scale, contrast = chance.uniform(-1.0, 1.0, size=4).tolist()
        return cls(
            right=config.shift * right,
            down=config.shift * down,
            scale=1.0 - config.scale * abs(scale) if whole else 1.0 + config.scale * scale,
            gamma=(1.0 + config.contrast) ** contrast,
        )

    def apply(self, pixels: Array) -> Array:
        """Bytes [H, W, C] of the same shape; beyond its edges, a picture goes on as it ends."""
        return self._shaded(self._placed(pixels))

    def _placed(self, pixels: Array) -> Array:
        """For each new pixel what stood there: the window (left, top, right, bottom) of the old picture."""
        from PIL import Image

        H, W, _ = pixels.shape
        if self.scale == 1.0 and self.right == 0.0 and self.down == 0.0:
            return pixels
        across, down = W / self.scale, H / self.scale
        left, top = (W - across) / 2 - self.right * H, (H - down) / 2 - self.down * H
        edge_x = max(0, math.ceil(max(-left, left + across - W)))
        edge_y = max(0, math.ceil(max(-top, top + down - H)))
        wide = np.pad(pixels, ((edge_y, edge_y), (edge_x, edge_x), (0, 0)), mode="edge")
        box = (left + edge_x, top + edge_y, left + edge_x + across, top + edge_y + down)
        image = Image.fromarray(wide[..., 0] if wide.shape[2] == 1 else wide)
        return np.asarray(image.resize((W, H), Image.Resampling.BILINEAR, box=box)).reshape(pixels.shape)

    def _shaded(self, pixels: Array) -> Array:
        """x' = x^γ for shades from 0 to 1: what is between black and white gets darker or lighter

        A network sees pictures standardised, so x' = m + f (x - m) would be the same picture to it.
        """
        if self.gamma == 1.0:
            return pixels
        table = 255.0 * (np.arange(256) / 255.0) ** self.gamma
        return np.asarray(np.rint(table).astype(np.uint8)[pixels])
