"""Data augmentation: SpecAugment for sound and vectors, random shifts, scales and contrast for pictures."""
# S steps, D width of a vector, H height, W width, C colours

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from antiphon.config.sources import PictureConfig
from antiphon.data.source import Array, Random

__all__ = ["PictureAugmentation", "spec_augment", "standardise"]

LONGEST_SHARE = 5  # a mask hides at most a fifth of the time: short sounds must stay audible
WIDEST_SHARE = 2  # and at most half of the values
EPSILON = 1e-5  # a value that never changes becomes 0


def standardise(vectors: Array) -> Array:
    """(x - mean) / √(var + ε), each of the D values over the S steps"""
    exact = vectors.astype(np.float64)
    centred = exact - exact.mean(0)
    return np.asarray(centred / np.sqrt(exact.var(0) + EPSILON), np.float32)


class Masks(Protocol):
    """The number of masks along one axis and the width of the widest: a section of the configuration."""

    @property
    def count(self) -> int: ...
    @property
    def width(self) -> int: ...


def spec_augment(vectors: Array, chance: Random, times: Masks | None, values: Masks | None) -> Array:
    """SpecAugment: random stretches of time, then of values, become the mean over the example; [S, D] stays [S, D]."""
    (S, D), masked = vectors.shape, vectors.copy()
    for start, end in _masks(chance, times, S, S // LONGEST_SHARE):
        masked[start:end] = vectors.mean(0)
    vectors = masked.copy()
    for start, end in _masks(chance, values, D, D // WIDEST_SHARE):
        masked[:, start:end] = vectors[:, start:end].mean(0)
    return masked


def _masks(chance: Random, masks: Masks | None, size: int, most: int) -> Iterator[tuple[int, int]]:
    """Start and end of each mask: width from U{0..min(widest, most)}, then start from U{0..size - width}."""
    if masks is None:
        return
    for _ in range(masks.count):
        drawn = int(chance.integers(0, min(masks.width, most), endpoint=True))
        start = int(chance.integers(0, size - drawn, endpoint=True))
        yield start, start + drawn


@dataclass(frozen=True)
class PictureAugmentation:
    """Random shift, scale and contrast of one picture, or of all frames of one video."""

    right: float  # in heights
    down: float
    scale: float  # factors
    gamma: float

    @classmethod
    def drawn(cls, config: PictureConfig, chance: Random, *, whole: bool) -> PictureAugmentation | None:
        """A random one, or None without options. `whole` only shrinks: growing would cut off letters of a line."""
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
        """The picture, bytes [H, W, C]; pixels beyond its edges repeat the edge."""
        return self._gamma_correct(self._shift_and_scale(pixels))

    def _shift_and_scale(self, pixels: Array) -> Array:
        """Shift and scale: the picture is a window (left, top, right, bottom) of the old one, resized."""
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

    def _gamma_correct(self, pixels: Array) -> Array:
        """x' = x^γ for shades from 0 to 1, so that greys get darker or lighter

        Front ends standardise pictures, so to them x' = m + f (x - m) would be the same picture.
        """
        if self.gamma == 1.0:
            return pixels
        table = 255.0 * (np.arange(256) / 255.0) ** self.gamma
        return np.asarray(np.rint(table).astype(np.uint8)[pixels])
