"""Videos as sources: a folder in the order of its names, arrays of any type of number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from antiphon.config.sources import FramesConfig
from antiphon.data.source import UnreadableError
from antiphon.data.video import FramesReader

GREY = FramesReader(FramesConfig(colour=False, height=6, width=8))


def save(path: Path, array: np.ndarray) -> str:
    np.save(path, array)
    return str(path)


def test_a_folder_in_the_order_of_its_names(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        Image.new("L", (8, 6), 20 * number).save(tmp_path / f"frame{number}.png")
    (tmp_path / "notes.txt").write_text("not a frame")
    Image.new("L", (8, 6)).save(tmp_path / ".hidden.png")
    values = GREY.read(str(tmp_path))
    assert values.shape == (GREY.length(str(tmp_path)), GREY.size) == (3, 48)
    assert values[:, 0] == pytest.approx(np.array([20, 40, 200]) / 127.5 - 1)


@pytest.mark.parametrize(
    ("array", "shade"),
    [
        (np.full((3, 6, 8), 51, np.uint8), 51),
        (np.full((3, 6, 8), 51, np.int64), 51),
        (np.full((3, 6, 8), 51 * 257, np.uint16), 51),
        (np.full((3, 6, 8), 0.2, np.float32), 51),
        (np.full((3, 6, 8), 0.2, np.float64), 51),
        (np.full((3, 6, 8), True), 255),
        (np.full((3, 6, 8, 1), 51, np.uint8), 51),
        (np.full((3, 6, 8, 3), 51, np.uint8), 51),
        (np.zeros((3, 6, 8, 4), np.uint8), 255),  # all transparent
    ],
    ids=["bytes", "whole", "16 bits", "float", "double", "truth", "one colour", "three", "alpha"],
)
def test_arrays(tmp_path: Path, array: np.ndarray, shade: int) -> None:
    path = save(tmp_path / "a.npy", array)
    assert GREY.length(path) == 3
    assert GREY.read(path) == pytest.approx(np.full((3, 48), shade / 127.5 - 1), abs=1e-6)


def test_a_frame_lies_row_by_row(tmp_path: Path) -> None:
    reader = FramesReader(FramesConfig(height=2, width=3))
    array = np.random.default_rng(1).integers(0, 256, (4, 2, 3, 3), dtype=np.uint8)
    values = reader.read(save(tmp_path / "a.npy", array))
    assert values == pytest.approx(array.reshape(4, 18) / 127.5 - 1, abs=1e-6)
    assert reader.picture(values) == pytest.approx(array / 255, abs=1e-6)
    assert FramesConfig.model_validate_json(reader.json()) == reader.config


def test_all_frames_of_a_video_change_alike(tmp_path: Path) -> None:
    still = np.full((5, 20, 20), 200, np.uint8)
    still[:, 8:12, 8:12] = 40
    path = save(tmp_path / "a.npy", still)
    for key in ("shift", "scale", "contrast"):
        reader = FramesReader(FramesConfig(colour=False, height=20, width=20, **{key: 0.3}))
        changed = reader.read(path, np.random.default_rng(1))
        assert (changed == changed[:1]).all()
        assert (changed != reader.read(path)).any()
        assert (changed == reader.read(path, np.random.default_rng(1))).all()
        assert (changed != reader.read(path, np.random.default_rng(2))).any()


def test_faults(tmp_path: Path) -> None:
    def fact(path: str) -> str:
        with pytest.raises(UnreadableError) as caught:
            GREY.read(path)
        return str(caught.value)

    nan = np.zeros((2, 6, 8))
    nan[1, 2, 3] = np.nan
    assert fact(save(tmp_path / "nan.npy", nan)) == "shades from nan to nan, where 0 to 1 are expected"
    assert "from 0 to 300" in fact(save(tmp_path / "much.npy", np.array([[[0.0, 300.0]]])))
    assert "shape [6, 8]" in fact(save(tmp_path / "flat.npy", np.zeros((6, 8))))
    assert "1, 3 or 4 colours" in fact(save(tmp_path / "two.npy", np.zeros((1, 6, 8, 2))))
    assert "shape [0, 6, 8]" in fact(save(tmp_path / "none.npy", np.zeros((0, 6, 8))))
    assert "complex" in fact(save(tmp_path / "complex.npy", np.zeros((1, 6, 8), np.complex64)))
    assert fact(str(tmp_path / "missing.npy")) == "no such file"
    np.save(tmp_path / "objects.npy", np.array([{}, []], dtype=object))
    assert "neither a folder of pictures nor an array of numbers" in fact(str(tmp_path / "objects.npy"))
    np.savez(tmp_path / "many.npz", a=np.zeros((1, 6, 8)))
    assert "nor an array of numbers (.npy)" in fact(str(tmp_path / "many.npz"))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "nan.npy").read_bytes()[:300])
    assert "neither" in fact(str(tmp_path / "cut.npy"))
    (tmp_path / "empty").mkdir()
    assert fact(str(tmp_path / "empty")) == "a folder without pictures"
    (tmp_path / "empty" / "1.png").write_text("text")
    assert fact(str(tmp_path / "empty")).startswith("1.png: not a picture")


def test_a_sentence_in_place_of_a_path() -> None:
    for ask in (GREY.length, GREY.read):
        with pytest.raises(UnreadableError, match="neither a folder of pictures nor an array"):
            ask("one word and another " * 40)
