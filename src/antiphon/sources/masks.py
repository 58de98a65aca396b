"""SpecAugment: stretches of time and of values are hidden in training (Park et al. 2019)."""
# S steps, D width of a vector

from __future__ import annotations

import numpy as np

from antiphon.sources.reading import Array, Random

__all__ = ["hide_times", "hide_values", "standardised"]

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
