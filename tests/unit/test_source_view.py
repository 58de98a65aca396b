"""The sources as the model reads them, for drawing."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_generators import AUDIO, CELLS, COUNT, FEATURES, FRAMES, IMAGE, file_generator, given_file
from PIL import Image
from tiny_generators import tiny_generator

from antiphon.data.augment import standardise
from antiphon.errors import UserError
from antiphon.inference.source_view import view_sources


def pixels_of(picture: str) -> np.ndarray:
    head, _, content = picture.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))


def values_of(source: dict[str, Any]) -> np.ndarray:
    content = np.frombuffer(base64.b64decode(source["values"]), np.uint8)
    shares = content.reshape(source["frames"], source["bands"]) / 255
    return np.asarray(source["low"] + shares * (source["high"] - source["low"]))


@pytest.mark.parametrize("colour", [True, False])
def test_an_image_as_it_is_read(tmp_path: Path, colour: bool) -> None:
    made = file_generator(tmp_path, {**IMAGE, "colour": colour}, front=CELLS)
    path = given_file(tmp_path, "image", 30)
    [source] = view_sources(made, path)["sources"]
    values = np.asarray(made.codec.encode(path).source)
    assert (source["kind"], source["width"], source["height"], source["grid"]) == ("image", 32, 16, (4, 8))
    assert pixels_of(source["picture"]).shape == ((16, 32, 3) if colour else (16, 32))
    shown = pixels_of(source["picture"]).reshape(16, 32, -1).swapaxes(0, 1).reshape(32, -1)
    assert shown == pytest.approx((values + 1) * 127.5, abs=0.51)
    assert source["names"][:9] == [*(f"1,{n}" for n in range(1, 9)), "2,1"]


def test_a_sound_as_a_spectrogram(tmp_path: Path) -> None:
    front = {"kind": "subsampled", "channels": 4, "kernel": 3}
    made = file_generator(tmp_path, AUDIO, front=front)
    path = given_file(tmp_path, "audio", 30)
    [source] = view_sources(made, path)["sources"]
    values = np.asarray(made.codec.encode(path).source)
    assert (source["frames"], source["bands"], source["factor"]) == (31, 6, 4)
    assert source["seconds"] == pytest.approx(0.31)
    assert len(source["names"]) == len(made.generate(path).source_tokens) == 8
    assert values_of(source) == pytest.approx(np.clip(values, -2.5, 2.5), abs=0.011)


def test_vectors_beside_a_text(tmp_path: Path) -> None:
    made = file_generator(tmp_path, [COUNT, FEATURES])
    path = str(tmp_path / "arrays" / "0.npy")
    found = view_sources(made, f"1 9\t{path}")
    text, vectors = found["sources"]
    assert text == {"kind": "text", "text": "1 9", "tokens": ["1", "‹9›", "</s>"]}
    read = made.codec.encode(f"1 9\t{path}").source
    assert isinstance(read, tuple)
    assert values_of(vectors) == pytest.approx(np.clip(standardise(np.asarray(read[1])), -2.5, 2.5), abs=0.011)
    assert vectors["seconds"] is None
    assert "unknown symbols in the source 1: '9' x 1" in found["flags"]
    assert str(tmp_path) not in repr(found)


def test_a_video_as_a_strip(tmp_path: Path) -> None:
    made = file_generator(tmp_path, FRAMES, front={"kind": "frame-cells", "channels": [4]})
    path = given_file(tmp_path, "frames", 9)
    [source] = view_sources(made, path)["sources"]
    assert (source["grid"], source["frames"], source["width"], source["height"]) == ((1, 9), 9, 9 * 16, 16)
    frames = np.asarray(made.codec.encode(path).source).reshape(9, 16, 16, 3)
    assert pixels_of(source["picture"])[:, 16:32] == pytest.approx((frames[1] + 1) * 127.5, abs=0.51)


def test_what_is_large_is_made_small(tmp_path: Path) -> None:
    made = file_generator(tmp_path, {**FEATURES, "max_length": 9000})
    long = tmp_path / "long.npy"
    np.save(long, np.random.default_rng(1).normal(size=(8500, 4)).astype(np.float32))
    [source] = view_sources(made, str(long))["sources"]
    assert (source["frames"], source["bands"]) == (4000, 4)
    videos = file_generator(
        tmp_path, {**FRAMES, "height": 100, "width": 100}, front={"kind": "frame-cells", "channels": [2]}
    )
    frames = tmp_path / "long_video.npy"
    np.save(frames, np.zeros((150, 10, 10, 3), np.uint8))
    [strip] = view_sources(videos, str(frames))["sources"]
    assert (strip["grid"], strip["width"], strip["height"]) == ((1, 150), 150 * 50, 50)


def test_a_prompt_and_a_plain_text() -> None:
    assert view_sources(tiny_generator("rnn-lm"), "K L")["sources"] == [
        {"kind": "text", "text": "K L", "tokens": ["K", "L"]}
    ]
    assert view_sources(tiny_generator("bahdanau"), "a b")["sources"][0]["tokens"] == ["a", "b", "</s>"]
    with pytest.raises(UserError, match="nothing to explain"):
        view_sources(tiny_generator("bahdanau"), " ")
