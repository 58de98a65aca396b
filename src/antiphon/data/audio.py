"""Audio as a sequence of log-mel frames."""
# N samples, M samples at another rate, S spectra, F frequencies, D mel bands

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from antiphon.config.sources import AudioConfig
from antiphon.data.augment import spec_augment, standardise
from antiphon.data.source import Array, FileSource, Random, UnreadableError
from antiphon.errors import MissingExtraError

__all__ = ["AudioReader", "read_rate"]

RATES = range(1000, 768_001)  # a header that says otherwise is damaged
HUGE = 0x7F000000  # bytes
SILENCE = 1e-10  # the lowest power
RANGE = 1e-8  # power relative to the loudest that is silence, too: 80 dB below


def read_rate(path: str) -> int | None:
    """The sample rate of a sound; None if it cannot be read."""
    try:
        return _header(path)[1]
    except UnreadableError:
        return None


def resampled_length(length: int, rate: int, new_rate: int) -> int:
    """M = ⌈N r' / r⌉, the number of samples at the new rate"""
    return -(-length * new_rate // rate)


def resample(samples: Array, rate: int, new_rate: int) -> Array:
    """Samples [N] at another rate [M], by the band-limited resampler of SoX; beyond its ends a sound is silent."""
    if rate == new_rate:
        return samples
    length = resampled_length(len(samples), rate, new_rate)
    silence = np.zeros(-(-rate // new_rate) + 1, np.float32)  # soxr rounds the length down: so it has all M samples
    longer = np.concatenate([np.asarray(samples, np.float32), silence])
    return np.asarray(_extra("soxr").resample(longer, rate, new_rate)[:length])


class AudioReader(FileSource):
    """Log-mel spectra of WAV or FLAC files; each band has mean 0 and variance 1 within a sound."""

    def __init__(self, config: AudioConfig) -> None:
        self.config = config
        self.kind = config.kind
        self.size = config.mels
        self.spectra = LogMel(rate=config.rate, mels=config.mels, window=config.window, step=config.step)

    def length(self, cell: str) -> int:
        samples, rate = _header(cell)
        return self.spectra.length(resampled_length(samples, rate, self.config.rate))

    def read(self, cell: str, chance: Random | None = None) -> Array:
        samples, rate = _samples(cell)
        spectra = self.spectra(resample(samples, rate, self.config.rate))
        if not np.isfinite(spectra).all():
            raise UnreadableError("samples too large for a spectrum; those of a sound are from -1 to 1")
        spectra = standardise(spectra)
        if chance is None:
            return spectra
        return spec_augment(spectra, chance, self.config.masks.time, self.config.masks.mels)

    def json(self) -> str:
        return json.dumps(self.config.model_dump(include={"kind", "rate", "mels", "window", "step"}))


class LogMel:
    """log(W |FFT(w ⊙ x)|²): spectrum t hears the window around sample t · step; beyond its ends a sound is silent

    w is the Hann window, W the mel filters. The floor of the logarithm is 80 dB below the loudest value, so a louder
    recording differs by a constant alone.
    """

    def __init__(self, *, rate: int, mels: int, window: float, step: float) -> None:
        self.step = max(1, round(rate * step / 1000))
        self.window = torch.hann_window(max(2, round(rate * window / 1000)))
        self.filters = _full_filters(rate, mels, len(self.window))  # [F, D]
        self.fft = 2 * (len(self.filters) - 1)

    def length(self, samples: int) -> int:
        """S = 1 + ⌊N / step⌋"""
        return 1 + samples // self.step

    def __call__(self, samples: Array) -> Array:
        """Samples [N] become spectra [S, D]."""
        with torch.inference_mode():
            power = self._power(torch.from_numpy(np.ascontiguousarray(samples, np.float32)))
            mels = (power @ self.filters).clamp(min=SILENCE)
            spectra: Array = mels.clamp(min=float(mels.max()) * RANGE).log().numpy()
        return spectra

    def _power(self, samples: Tensor) -> Tensor:
        """|FFT(w ⊙ x)|² [S, F]"""
        before = len(self.window) // 2
        around = functional.pad(samples, (before, len(self.window)))
        frames = around.unfold(0, len(self.window), self.step)[: self.length(len(samples))]  # [S, window]
        power: Tensor = torch.fft.rfft(frames * self.window, self.fft).abs().square()
        return power


def mel_filters(rate: int, mels: int, fft: int) -> Tensor:
    """Triangles [F, D] between D + 2 points that stand evenly on the mel scale, from 0 Hz to half the rate

    mel(f) = 2595 log10(1 + f / 700), the scale of HTK; the top of each triangle is 1.
    """
    highest = 2595 * np.log10(1 + rate / 2 / 700)
    points = 700 * (10 ** (np.linspace(0, highest, mels + 2) / 2595) - 1)
    frequencies = np.linspace(0, rate / 2, fft // 2 + 1)[:, None]
    low, middle, high = points[:-2], points[1:-1], points[2:]
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return torch.from_numpy(np.clip(np.minimum(rising, falling), 0, None).astype(np.float32))


def _full_filters(rate: int, mels: int, window: int) -> Tensor:
    """The mel filters for the smallest FFT (a power of 2) that holds the window and leaves no filter empty."""
    fft = 1 << (window - 1).bit_length()
    while not (filters := mel_filters(rate, mels, fft)).any(0).all():
        fft *= 2
    return filters


def _header(cell: str) -> tuple[int, int]:
    """The number of samples of a channel, and the rate."""
    soundfile = _extra("soundfile")
    _must_exist(cell)
    try:
        header = soundfile.info(cell)
    except (soundfile.SoundFileError, OSError, TypeError) as error:  # TypeError: a .raw file says nothing of itself
        raise UnreadableError(f"no sound that can be read, such as WAV or FLAC ({_reason(error)})") from error
    if _wav_breaks_off(Path(cell)):
        raise UnreadableError("the file is truncated: it is shorter than its header says")
    return _usable(header.frames, header.samplerate)


def _samples(cell: str) -> tuple[Array, int]:
    """The mean of the channels [N], and the rate."""
    soundfile = _extra("soundfile")
    expected, rate = _header(cell)
    try:
        channels = soundfile.read(cell, dtype="float32", always_2d=True)[0]
    except (soundfile.SoundFileError, OSError) as error:
        raise UnreadableError(f"the sound is damaged ({_reason(error)})") from error
    if len(channels) != expected:
        raise UnreadableError(f"the file is truncated after {len(channels):,} of {expected:,} samples")
    if not np.isfinite(channels).all():
        raise UnreadableError("a sample is not a finite number")
    return channels.mean(1), rate


def _wav_breaks_off(path: Path) -> bool:
    """True if a WAV file is shorter than its header says; libsndfile reads the rest without an error."""
    with path.open("rb") as file:
        head = file.read(12)
    promised = int.from_bytes(head[4:8], "little")
    # Programs that write to a pipe do not know the size and give a huge one; some omit the padding byte at the end.
    return head[:4] == b"RIFF" and promised < HUGE and path.stat().st_size < promised + 8 - 1


def _usable(samples: int, rate: int) -> tuple[int, int]:
    if samples <= 0:
        raise UnreadableError("an empty sound")
    if rate not in RATES:
        raise UnreadableError(f"{rate:,} samples a second, out of {RATES[0]:,} to {RATES[-1]:,}")
    return samples, rate


def _must_exist(cell: str) -> None:
    if not os.path.exists(cell):  # unlike pathlib, accepts a name that is too long
        raise UnreadableError("no such file")
    if not os.path.isfile(cell):
        raise UnreadableError("not a file")


def _reason(error: Exception) -> str:
    """The message of libsndfile."""
    return str(getattr(error, "error_string", error)).rstrip(".")


def _extra(package: str) -> ModuleType:
    try:
        return import_module(package)
    except (ImportError, OSError) as error:  # OSError: libsndfile is missing
        raise MissingExtraError(
            f"data.source: sounds are read with the package {package}; pip install 'antiphon[audio]' installs it"
        ) from error
