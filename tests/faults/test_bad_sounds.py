"""Sounds and arrays that cannot be used: a fact each, from the header where it can be seen there."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from antiphon.config.sources import AudioConfig, FeaturesConfig
from antiphon.data.arrays import FeaturesReader
from antiphon.data.audio import AudioReader
from antiphon.data.source import UnreadableError
from antiphon.errors import MissingExtraError

SOUND = np.sin(np.arange(8000) / 5) * 0.5


def wav(path: Path, samples: Any, rate: int = 8000) -> None:  # noqa: ANN401 (an array)
    soundfile.write(path, samples, rate, format="WAV", subtype="PCM_16")


def wav_of_rate(path: Path, rate: int) -> None:
    wav(path, SOUND)
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, 24, rate)
    path.write_bytes(content)


def cut_flac(path: Path) -> None:
    soundfile.write(path, np.random.default_rng(1).normal(size=40_000) * 0.1, 8000, format="FLAC")
    path.write_bytes(path.read_bytes()[:20_000])


BAD_SOUNDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty sound": (lambda path: wav(path, np.zeros(0)), "an empty sound"),
    "empty file": (lambda path: path.write_bytes(b""), "no sound that can be read"),
    "text": (lambda path: path.write_text("not a sound\n" * 50), "no sound that can be read"),
    "a picture": (lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(500)), "no sound that can be read"),
    "no file": (lambda _: None, "no such file"),
    "a folder": (lambda path: path.mkdir(), "not a file"),
    "a rate of 3": (lambda path: wav_of_rate(path, 3), "3 samples a second, out of 1,000 to 768,000"),
    "a rate of 2 GHz": (lambda path: wav_of_rate(path, 2_000_000_000), "2,000,000,000 samples a second"),
}


def test_samples_that_are_too_large(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", (SOUND * 1e25).astype(np.float32), 8000, subtype="FLOAT")
    with pytest.raises(UnreadableError, match="samples too large for a spectrum"):
        AudioReader(AudioConfig(rate=8000)).read(str(tmp_path / "a.wav"))


def test_a_sentence_in_place_of_a_path() -> None:
    with pytest.raises(UnreadableError, match="no such file"):
        AudioReader(AudioConfig()).read("one word and another " * 40)


@pytest.mark.parametrize("case", BAD_SOUNDS)
def test_a_bad_sound_is_a_fact(tmp_path: Path, case: str) -> None:
    write, fact = BAD_SOUNDS[case]
    path = tmp_path / "a.wav"
    write(path)
    reader = AudioReader(AudioConfig(rate=8000))
    for ask in (reader.length, reader.read):
        with pytest.raises(UnreadableError, match=fact):
            ask(str(path))


def test_a_raw_file_says_nothing_of_itself(tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(bytes(100))
    with pytest.raises(UnreadableError, match="no sound that can be read"):
        AudioReader(AudioConfig()).length(str(tmp_path / "a.raw"))


def test_a_flac_that_breaks_off(tmp_path: Path) -> None:
    cut_flac(tmp_path / "a.flac")
    with pytest.raises(UnreadableError, match="the sound is damaged"):
        AudioReader(AudioConfig(rate=8000)).read(str(tmp_path / "a.flac"))


def test_a_sound_with_a_hole(tmp_path: Path) -> None:
    """Ogg says how long it was, and gives what is left."""
    path = tmp_path / "a.ogg"
    soundfile.write(path, np.random.default_rng(1).normal(size=40_000) * 0.1, 8000, format="OGG")
    content = bytearray(path.read_bytes())
    content[9000:9200] = bytes(200)
    path.write_bytes(content)
    with pytest.raises(UnreadableError, match=r"truncated after [\d,]+ of 40,000 samples"):
        AudioReader(AudioConfig(rate=8000)).read(str(path))


def test_a_wav_that_breaks_off(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    wav(path, SOUND)
    whole = path.read_bytes()
    path.write_bytes(whole[:-4000])
    reader = AudioReader(AudioConfig(rate=8000))
    with pytest.raises(UnreadableError, match="truncated: it is shorter than its header says"):
        reader.length(str(path))
    path.write_bytes(whole[:4] + b"\xff\xff\xff\xff" + whole[8:40] + b"\xff\xff\xff\xff" + whole[44:])  # from a pipe
    assert len(reader.read(str(path))) == reader.length(str(path)) == 101


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_no_numbers(tmp_path: Path, value: float) -> None:
    samples = np.zeros(1000)
    samples[500] = value
    soundfile.write(tmp_path / "a.wav", samples, 8000, subtype="FLOAT")
    with pytest.raises(UnreadableError, match="a sample is not a finite number"):
        AudioReader(AudioConfig()).read(str(tmp_path / "a.wav"))


def test_without_soundfile_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wav(tmp_path / "a.wav", SOUND)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'antiphon\[audio\]'"):
        AudioReader(AudioConfig()).length(str(tmp_path / "a.wav"))


def cut_npy(path: Path) -> None:
    save(path, np.ones((100, 3)))
    path.write_bytes(path.read_bytes()[:-8])


def save(path: Path, array: Any) -> None:  # noqa: ANN401 (an array)
    with path.open("wb") as file:
        np.save(file, array)


def save_several(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, a=np.ones((2, 3)), b=np.ones((2, 3)))


def save_none(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file)


def huge(path: Path) -> None:
    """A header that promises more memory than there is."""
    save(path, np.ones((1, 3)))
    path.write_bytes(path.read_bytes().replace(b"(1, 3), ", b"(9999999999999, 3), "))


OBJECTS = np.array([[1, "a", None]], dtype=object)
SEEN_IN_THE_HEADER: dict[str, tuple[Callable[[Path], object], str]] = {
    "rank 1": (lambda path: save(path, np.ones(5)), "an array of rank 1 instead of 2"),
    "rank 3": (lambda path: save(path, np.ones((5, 3, 1))), "an array of rank 3 instead of 2"),
    "rank 0": (lambda path: save(path, np.float64(1)), "an array of rank 0 instead of 2"),
    "other width": (lambda path: save(path, np.ones((5, 4))), "its vectors have 4 values, the first array's have 3"),
    "no vectors": (lambda path: save(path, np.ones((0, 3))), r"an empty array \(0 vectors of 3 values\)"),
    "texts": (lambda path: save(path, np.array([["a", "b", "c"]])), "an array of <U1, not of real numbers"),
    "complex": (lambda path: save(path, np.ones((5, 3), complex)), "an array of complex128, not of real numbers"),
    "objects": (lambda path: save(path, OBJECTS), "an array of object, not of real numbers"),
    "breaks off": (cut_npy, "the file is truncated"),
    "huge": (huge, "the file is truncated"),
    "text file": (lambda path: path.write_text("1 2 3\n4 5 6\n"), "no array of numpy"),
    "empty file": (lambda path: path.write_bytes(b""), "no array of numpy"),
    "ZIP of nothing": (save_none, "0 arrays and none called features$"),
    "half a ZIP": (lambda path: path.write_bytes(b"PK\x03\x04 and no more"), "no array of numpy"),
    "several arrays": (save_several, "2 arrays and none called features: a, b"),
    "no file": (lambda _: None, "no such file"),
    "a folder": (lambda path: path.mkdir(), "cannot be read"),
}


@pytest.mark.parametrize("case", SEEN_IN_THE_HEADER)
def test_a_bad_array_is_a_fact(tmp_path: Path, case: str) -> None:
    write, fact = SEEN_IN_THE_HEADER[case]
    path = tmp_path / "a.npy"
    write(path)
    reader = FeaturesReader(FeaturesConfig(), 3)
    for ask in (reader.length, reader.read):
        with pytest.raises(UnreadableError, match=fact):
            ask(str(path))


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (-np.inf, "-inf"), (1e300, "1e\\+300")])
def test_numbers_that_are_not_finite(tmp_path: Path, value: float, shown: str) -> None:
    vectors = np.ones((5, 3))
    vectors[3, 1] = value
    save(tmp_path / "a.npy", vectors)
    with pytest.raises(UnreadableError, match=rf"vector 4, value 2 is no finite number of 32 bits \({shown}\)"):
        FeaturesReader(FeaturesConfig(), 3).read(str(tmp_path / "a.npy"))


def test_the_first_width_has_the_same_faults(tmp_path: Path) -> None:
    save(tmp_path / "a.npy", np.ones(5))
    with pytest.raises(UnreadableError, match="instead of 2"):
        FeaturesReader.first_width(str(tmp_path / "a.npy"))


@pytest.mark.parametrize("suffix", ["wav", "flac", "npy", "npz"])
def test_damaged_bytes_are_facts_or_do_no_harm(tmp_path: Path, suffix: str) -> None:
    """A few bytes at a drawn place become others, or the file ends there."""
    path, chance = tmp_path / f"a.{suffix}", np.random.default_rng(1)
    if suffix in ("npy", "npz"):
        (np.save if suffix == "npy" else np.savez_compressed)(path, chance.normal(size=(6, 3)))
    else:
        soundfile.write(path, chance.integers(-9000, 9000, 300).astype(np.int16), 8000)
    reader = FeaturesReader(FeaturesConfig(), 3) if suffix in ("npy", "npz") else AudioReader(AudioConfig(rate=8000))
    whole, faults = path.read_bytes(), 0
    for _ in range(250):
        content, place = bytearray(whole), int(chance.integers(len(whole) - 4))
        content[place : place + 4] = chance.bytes(4)
        path.write_bytes(content if chance.random() < 0.8 else content[:place])
        try:
            assert len(reader.read(str(path))) == reader.length(str(path))
        except UnreadableError:
            faults += 1
    assert faults > 20
