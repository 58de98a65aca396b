"""Sound at another rate: a low-pass filter that is evaluated only where the new samples stand."""
# N samples, M samples at the new rate, P phases, L samples that they hear, Q times the phases come round

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from antiphon.sources.reading import Array

__all__ = ["resampled", "resampled_length"]

ZEROS = 32  # zero crossings of the sinc on each side
CUT_OFF = 0.92  # of the lower half rate: the filter falls from 0.84 of it to 1
BETA = 8.0  # Kaiser's window: what is cut off is 80 dB down
PHASES = 64  # new samples that are found by one matrix


def resampled_length(length: int, rate: int, new_rate: int) -> int:
    """M = ⌈N r' / r⌉: the new samples that stand before the end of the sound."""
    return -(-length * new_rate // rate)


def resampled(samples: Array, rate: int, new_rate: int) -> Array:
    """y_m = Σ_n x_n h(m r / r' - n), h a low-pass filter at the lower of the two half rates; x is 0 beyond its ends

    The places m r / r' come round after so many samples; those of one round are found together, as a product of
    matrices.
    """
    if rate == new_rate:
        return samples
    common = math.gcd(rate, new_rate)
    rounds = -(-PHASES * common // new_rate)  # a round of few phases is taken several times
    up, down = rounds * new_rate // common, rounds * rate // common
    length = resampled_length(len(samples), rate, new_rate)
    times, reach = -(-length // up), _reach(up, down)
    padded = np.zeros(times * down + 2 * reach + 1, np.float32)
    padded[reach : reach + len(samples)] = samples
    found = np.empty((times, up), np.float32)
    for phase, (first, bank) in zip(range(0, up, PHASES), _banks(up, down), strict=True):
        heard = sliding_window_view(padded, len(bank))[first::down][:times]  # [Q, L]
        found[:, phase : phase + PHASES] = heard @ bank
    return found.reshape(-1)[:length]


@lru_cache(maxsize=4)
def _banks(up: int, down: int) -> list[tuple[int, Array]]:
    """For every few phases where what they hear begins, and h [L, P]

    h(t) = sinc(c t) w(t), w a Kaiser window; each phase adds up to 1, so that a constant stays what it is.
    """
    reach, banks = _reach(up, down), []
    cut_off = _cut_off(up, down)
    for phase in range(0, up, PHASES):
        places = np.arange(phase, min(phase + PHASES, up)) * down  # in 1 / up samples
        first, last = int(places[0] // up), int(places[-1] // up)
        distances = places / up - np.arange(first - reach, last + reach + 1)[:, None]  # [L, P]
        inside = np.clip(1 - (distances * cut_off / ZEROS) ** 2, 0.0, None)
        bank = np.sinc(cut_off * distances) * np.i0(BETA * np.sqrt(inside)) * (inside > 0)
        banks.append((first, (bank / bank.sum(0)).astype(np.float32)))
    return banks


def _cut_off(up: int, down: int) -> float:
    """As a share of the old half rate."""
    return CUT_OFF * min(1.0, up / down)


def _reach(up: int, down: int) -> int:
    """Samples that the filter hears on each side."""
    return math.ceil(ZEROS / _cut_off(up, down))
