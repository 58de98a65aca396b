"""Sounds: log-mel against the formula in numpy, resampling against sines, lengths from headers, SpecAugment."""
# N samples, S spectra, F frequencies, D mel bands

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.config.sources import AudioConfig, TimeMaskConfig
from antiphon.data.audio import AudioReader, LogMel, mel_filters, resample, resampled_length
from antiphon.data.augment import spec_augment, standardise
from antiphon.data.source import Array

SMALL = AudioConfig(rate=8000, mels=20)


def sine(frequency: float, rate: int, seconds: float = 1.0) -> Array:
    return np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)


def written(path: Path, samples: Array, rate: int, subtype: str = "FLOAT") -> str:
    soundfile.write(path, samples, rate, subtype=subtype)
    return str(path)


def mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))


def reference(samples: Array, rate: int, mels: int, window: int, step: int, fft: int) -> Array:
    """The definition, number by number: DFT by its sum, triangles by their sides."""
    n = np.arange(window)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * n / window)
    edges = [700 * (10 ** (m / 2595) - 1) for m in np.linspace(0, mel(rate / 2), mels + 2)]
    rows = []
    for centre in range(0, len(samples) + 1, step):
        heard = [
            samples[i] if 0 <= i < len(samples) else 0.0
            for i in range(centre - window // 2, centre - window // 2 + window)
        ]
        power = [abs(np.sum(heard * hann * np.exp(-2j * np.pi * k * n / fft))) ** 2 for k in range(fft // 2 + 1)]
        row = []
        for low, top, high in zip(edges, edges[1:], edges[2:], strict=False):
            total = 0.0
            for k, energy in enumerate(power):
                f = k * rate / fft
                if low < f <= top:
                    total += energy * (f - low) / (top - low)
                elif top < f < high:
                    total += energy * (high - f) / (high - top)
            row.append(total)
        rows.append(row)
    found = np.maximum(rows, 1e-10)
    return np.log(np.maximum(found, found.max() / 10**8))


def test_the_mel_scale_is_that_of_htk() -> None:
    """1000 Hz is 999.99 mel; with 2 filters up to 4000 Hz the points are 0, 1/3, 2/3 and all of its 2146.06 mel."""
    assert mel(1000) == pytest.approx(999.9855, abs=1e-4)
    assert mel(4000) == pytest.approx(2146.06, abs=0.01)
    filters = mel_filters(8000, 2, 8000).numpy()  # a frequency each Hz
    assert filters.shape == (4001, 2)
    assert [int(top) for top in filters.argmax(0)] == [
        621,
        1791,
    ]  # 620.6, 1791.3: 700 (10^(715.35 / 2595) - 1) and of 1430.71
    assert filters.max() == pytest.approx(1.0, abs=1e-2)
    assert [(int(np.flatnonzero(column)[0]), int(np.flatnonzero(column)[-1])) for column in filters.T] == [
        (1, 1791),  # to the top of the next
        (621, 3999),  # from the top of the one before
    ]


def test_log_mel_is_the_formula() -> None:
    samples = np.random.default_rng(1).normal(size=700) * np.linspace(0, 1, 700)
    spectra = LogMel(rate=8000, mels=12, window=16, step=8)(samples)
    expected = reference(samples, 8000, 12, window=128, step=64, fft=128)
    assert spectra.shape == (11, 12)
    np.testing.assert_allclose(spectra, expected, rtol=1e-4, atol=1e-4)


def test_a_window_that_is_no_power_of_two_is_filled_up() -> None:
    samples = np.random.default_rng(2).normal(size=300)
    found = LogMel(rate=4000, mels=6, window=25, step=10)(samples)
    np.testing.assert_allclose(found, reference(samples, 4000, 6, window=100, step=40, fft=128), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("rate", "mels"), [(8000, 80), (8000, 128), (16000, 256), (1000, 40)])
def test_no_filter_is_empty(rate: int, mels: int) -> None:
    assert (LogMel(rate=rate, mels=mels, window=25, step=10).filters.sum(0) > 0).all()


def test_a_tone_is_in_its_band_and_at_its_time() -> None:
    """1000 Hz is 999.99 of 2146.06 mel: of 20 bands the one whose top is nearest to 21 · 0.466, the 10th."""
    samples = np.concatenate([np.zeros(4000), sine(1000, 8000, 0.5)])
    spectra = LogMel(rate=8000, mels=20, window=25, step=10)(samples)
    assert (spectra[60:95].argmax(1) == 9).all()
    loud = spectra[:, 9] > spectra[:, 9].max() - 3
    assert np.flatnonzero(loud)[0] in (49, 50)


def test_resampling_keeps_a_sine() -> None:
    for rate, new_rate in ((44_100, 16_000), (8000, 16_000), (48_000, 8000), (11_025, 8000), (22_051, 8000)):
        found = resample(sine(1000, rate), rate, new_rate)
        assert len(found) == new_rate
        middle = slice(new_rate // 10, -new_rate // 10)  # beyond its ends a sound is silent
        np.testing.assert_allclose(found[middle], sine(1000, new_rate)[middle], atol=1e-4)


@pytest.mark.parametrize("frequency", [8100, 9000, 12_000, 20_000])
def test_what_the_new_rate_cannot_hold_is_cut_off(frequency: int) -> None:
    """At 16 kHz, 9 kHz would sound as 7 kHz. It is 80 dB down."""
    found = resample(sine(frequency, 44_100), 44_100, 16_000)[1000:-1000]
    assert np.abs(found).max() < 1e-4


def test_more_samples_bring_no_new_tones() -> None:
    """3 kHz at 8 kHz has an image at 5 kHz."""
    found = resample(sine(3000, 8000), 8000, 16_000)[1000:-1000]
    spectrum = np.abs(np.fft.rfft(found * np.hanning(len(found))))
    hertz = np.fft.rfftfreq(len(found), 1 / 16_000)
    assert spectrum[hertz > 3200].max() < 1e-4 * spectrum.max()


def test_a_constant_stays_and_the_same_rate_changes_nothing() -> None:
    found = resample(np.ones(4000), 44_100, 16_000)[200:-200]
    np.testing.assert_allclose(found, 1.0, rtol=1e-5)  # the order of its float32 sums is the processor's
    samples = sine(440, 8000)
    assert resample(samples, 8000, 8000) is samples


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 3000), st.sampled_from([8000, 11_025, 16_000, 44_100, 7910]), st.sampled_from([4000, 8000]))
def test_lengths_are_known_before(length: int, rate: int, new_rate: int) -> None:
    spectra = LogMel(rate=new_rate, mels=8, window=25, step=10)
    samples = resample(np.ones(length), rate, new_rate)
    assert len(samples) == resampled_length(length, rate, new_rate)
    assert len(spectra(samples)) == spectra.length(len(samples))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(length=st.integers(1, 2000), rate=st.sampled_from([8000, 22_050]), channels=st.integers(1, 3))
def test_the_header_tells_the_length(
    tmp_path_factory: pytest.TempPathFactory, length: int, rate: int, channels: int
) -> None:
    path = tmp_path_factory.mktemp("sounds") / "a.wav"
    cell = written(path, np.full((length, channels), 0.1), rate, "PCM_16")
    reader = AudioReader(SMALL)
    found = reader.read(cell)
    assert found.shape == (reader.length(cell), reader.size)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()


def test_each_band_has_mean_0_and_variance_1(tmp_path: Path) -> None:
    noise = np.random.default_rng(3).normal(size=8000) * np.linspace(0.01, 0.1, 8000)
    found = AudioReader(SMALL).read(written(tmp_path / "a.wav", noise, 8000))
    np.testing.assert_allclose(found.mean(0), 0.0, atol=1e-5)
    np.testing.assert_allclose(found.std(0), 1.0, atol=1e-3)


def test_loudness_changes_nothing(tmp_path: Path) -> None:
    noise = np.random.default_rng(4).normal(size=4000) * 0.1
    loud, quiet = (AudioReader(SMALL).read(written(tmp_path / f"{v}.wav", noise * v, 8000)) for v in (1.0, 0.25))
    np.testing.assert_allclose(loud, quiet, atol=1e-3)


def test_stereo_is_the_mean_of_its_channels(tmp_path: Path) -> None:
    left, right = sine(300, 8000) * 0.4, sine(900, 8000) * 0.2
    both = AudioReader(SMALL).read(written(tmp_path / "both.wav", np.stack([left, right], 1), 8000))
    mean = AudioReader(SMALL).read(written(tmp_path / "mean.wav", (left + right) / 2, 8000))
    np.testing.assert_allclose(both, mean, atol=1e-3)


def test_flac_and_wav_are_the_same(tmp_path: Path) -> None:
    samples = np.rint(sine(500, 8000) * 16_000).astype(np.int16)
    wav = AudioReader(SMALL).read(written(tmp_path / "a.wav", samples, 8000, "PCM_16"))
    flac = AudioReader(SMALL).read(written(tmp_path / "a.flac", samples, 8000, "PCM_16"))
    np.testing.assert_array_equal(wav, flac)


def test_the_rate_of_the_file_hardly_matters() -> None:
    """The same chord at two rates; where nothing sounds there is nothing to compare."""
    times = {rate: np.arange(rate) / rate for rate in (8000, 22_050)}
    chord = {
        rate: sum(
            np.sin(2 * np.pi * f * t) * np.exp(-3 * (t - at) ** 2) for f, at in ((300, 0.2), (700, 0.5), (1500, 0.8))
        )
        for rate, t in times.items()
    }
    found = {rate: AudioReader(SMALL).spectra(resample(chord[rate], rate, 8000)) for rate in chord}
    loud = found[8000] > found[8000].max() - 8
    loud[[0, 1, -2, -1]] = False  # a sound that is cut has all frequencies there
    assert loud.mean() > 0.2
    np.testing.assert_allclose(found[22_050][loud], found[8000][loud], atol=0.05)


@pytest.mark.parametrize("samples", [np.zeros(4000), np.full(4000, 0.5), np.zeros(1)])
def test_silence_is_no_fault(tmp_path: Path, samples: Array) -> None:
    found = AudioReader(SMALL).read(written(tmp_path / "a.wav", samples, 8000))
    assert np.isfinite(found).all()
    assert np.abs(AudioReader(SMALL).read(written(tmp_path / "b.wav", np.zeros(4000), 8000))).max() == 0.0


@pytest.mark.parametrize(
    ("key", "value", "shape"),
    [("rate", 16_000, (51, 20)), ("mels", 30, (51, 30)), ("window", 40.0, (51, 20)), ("step", 20.0, (26, 20))],
)
def test_each_option_has_an_effect(tmp_path: Path, key: str, value: float, shape: tuple[int, int]) -> None:
    cell = written(tmp_path / "a.wav", np.random.default_rng(5).normal(size=4000) * 0.1, 8000)
    usual, other = AudioReader(SMALL), AudioReader(SMALL.model_copy(update={key: value}))
    assert usual.read(cell).shape == (51, 20)
    assert other.read(cell).shape == shape
    assert other.size == shape[1]
    if shape == (51, 20):
        assert np.abs(other.read(cell) - usual.read(cell)).max() > 0.1
    assert other.json() != usual.json()
    assert json.loads(other.json())["kind"] == "audio"


AXES = ("time", "mels")


def masked(axis: str, **mask: int) -> AudioConfig:
    return AudioConfig.model_validate({**dict(SMALL), "masks": {axis: mask}})


@pytest.mark.parametrize("axis", AXES)
def test_masks_are_for_training(tmp_path: Path, axis: str) -> None:
    cell = written(tmp_path / "a.wav", np.random.default_rng(6).normal(size=8000) * 0.1, 8000)
    reader = AudioReader(masked(axis, count=3))
    clean = AudioReader(SMALL).read(cell)
    np.testing.assert_array_equal(reader.read(cell), clean)
    np.testing.assert_array_equal(AudioReader(SMALL).read(cell, np.random.default_rng(1)), clean)
    first, again, other = (reader.read(cell, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != clean).any()
    assert (first != other).any()
    assert first.shape == clean.shape
    changed = (first != clean).any(axis=1 if axis == "time" else 0)  # steps, or bands
    np.testing.assert_allclose(first[changed] if axis == "time" else first[:, changed], 0.0, atol=1e-5)


@pytest.mark.parametrize("axis", AXES)
def test_widths_have_an_effect(tmp_path: Path, axis: str) -> None:
    cell = written(tmp_path / "a.wav", np.random.default_rng(7).normal(size=8000) * 0.1, 8000)
    clean, hidden = AudioReader(SMALL).read(cell), {}
    for most in (2, 9):
        reader = AudioReader(masked(axis, count=1, width=most))
        hidden[most] = [
            int((reader.read(cell, np.random.default_rng(seed)) != clean).any(axis=1 if axis == "time" else 0).sum())
            for seed in range(60)
        ]
    assert set(hidden[2]) == {0, 1, 2}
    assert set(hidden[9]) == set(range(10))


def test_short_sounds_stay_audible() -> None:
    """Of 10 steps 2 are hidden at most, of 6 values 3."""
    vectors = np.arange(60, dtype=np.float32).reshape(10, 6) ** 2
    times = [
        spec_augment(vectors, np.random.default_rng(seed), TimeMaskConfig(count=1, width=50), None)
        for seed in range(50)
    ]
    values = [
        spec_augment(vectors, np.random.default_rng(seed), None, TimeMaskConfig(count=1, width=50))
        for seed in range(50)
    ]
    assert max(int((one != vectors).any(1).sum()) for one in times) == 2
    assert max(int((one != vectors).any(0).sum()) for one in values) == 3


def test_standardised_values_that_never_change_are_0() -> None:
    found = standardise(np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_allclose(found, [[-1, 0], [1, 0]], atol=1e-4)
