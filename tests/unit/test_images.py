"""Pictures as sources: every mode of file, aspect, padding, random changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from antiphon.config.sources import CellsConfig, ImageConfig
from antiphon.data.image import ImageReader
from antiphon.models.build_frontends import SourceSpec, build_front_end
from antiphon.sequence import Sequence

LUMINANCE = {"red": 76, "lime": 150, "blue": 29, "white": 255, "black": 0}  # ITU-R 601, of 255


def read(path: Path, chance: np.random.Generator | None = None, **keys: Any) -> np.ndarray:  # noqa: ANN401
    """The picture as bytes [H, W, C], checked against what the reader says of it."""
    config = ImageConfig(**{"height": 4, "width": 4, **keys})
    reader = ImageReader(config)
    values = reader.read(str(path), chance)
    assert values.dtype == np.float32
    assert values.shape == (reader.length(str(path)), reader.size)
    assert np.abs(values).max() <= 1.0
    pixels = (values.reshape(len(values), config.height, -1) + 1) * 127.5
    return np.rint(pixels).astype(int).swapaxes(0, 1)


def save(image: Image.Image, path: Path, **keys: Any) -> Path:  # noqa: ANN401
    image.save(path, **keys)
    return path


@pytest.mark.parametrize("colour", list(LUMINANCE))
def test_grey_is_luminance(tmp_path: Path, colour: str) -> None:
    path = save(Image.new("RGB", (4, 4), colour), tmp_path / "a.png")
    assert (read(path, colour=False) == LUMINANCE[colour]).all()


def test_colours_stand_side_by_side_in_each_column(tmp_path: Path) -> None:
    image = Image.new("RGB", (4, 4))
    image.putpixel((3, 1), (255, 51, 102))  # x 3, y 1
    values = ImageReader(ImageConfig(height=4, width=4)).read(str(save(image, tmp_path / "a.png")))
    assert values[3, 3:6] == pytest.approx([1.0, -0.6, -0.2], abs=1e-6)
    assert (np.delete(values.ravel(), range(3 * 12 + 3, 3 * 12 + 6)) == -1.0).all()


def test_a_palette_is_its_colours(tmp_path: Path) -> None:
    image = Image.new("RGB", (4, 4), (200, 100, 50)).quantize(2)
    assert image.mode == "P"
    assert (read(save(image, tmp_path / "a.png")) == (200, 100, 50)).all()


@pytest.mark.parametrize(("mode", "colour"), [("RGBA", (255, 0, 0, 0)), ("LA", (0, 0))])
def test_what_is_transparent_is_white(tmp_path: Path, mode: str, colour: tuple[int, ...]) -> None:
    assert (read(save(Image.new(mode, (4, 4), colour), tmp_path / "a.png")) == 255).all()


def test_half_transparent_red_is_pink(tmp_path: Path) -> None:
    path = save(Image.new("RGBA", (4, 4), (255, 0, 0, 102)), tmp_path / "a.png")
    assert np.abs(read(path) - (255, 153, 153)).max() <= 1


def test_the_transparent_colour_of_a_palette_is_white(tmp_path: Path) -> None:
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    assert (read(save(image, tmp_path / "a.png", transparency=1)) == 255).all()


def test_no_ink_of_four_is_white(tmp_path: Path) -> None:
    for colour, shade in (((0, 0, 0, 0), 255), ((0, 0, 0, 255), 0)):
        for grey in (True, False):
            path = save(Image.new("CMYK", (8, 8), colour), tmp_path / "a.jpg", quality=100)
            assert np.abs(read(path, colour=not grey) - shade).max() <= 2


def test_the_colours_of_print_in_grey(tmp_path: Path) -> None:
    for mode, colour, shade in (
        ("CMYK", (255, 0, 0, 0), 179),
        ("LAB", (255, 128, 128), 255),
        ("LAB", (0, 128, 128), 0),
    ):
        path = save(Image.new(mode, (8, 8), colour), tmp_path / "a.tif")
        assert np.abs(read(path, colour=False) - shade).max() <= 2


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_grey_of_16_bits_keeps_its_shades(tmp_path: Path, suffix: str) -> None:
    shades = np.array([[0, 65535], [32768, 257]], dtype=np.uint16).repeat(2, 0).repeat(2, 1)
    path = save(Image.fromarray(shades), tmp_path / f"a.{suffix}")
    assert read(path, colour=False)[::3, ::3, 0].tolist() == [[0, 255], [128, 1]]
    assert (read(path) == read(path, colour=False)).all()  # the same in all three colours


def test_one_bit_is_black_and_white(tmp_path: Path) -> None:
    image = Image.new("1", (4, 4))
    image.paste(1, (2, 0, 4, 4))
    assert read(save(image, tmp_path / "a.png"), colour=False)[0, :, 0].tolist() == [0, 0, 255, 255]


def test_real_numbers_are_shades(tmp_path: Path) -> None:
    path = save(Image.fromarray(np.full((4, 4), 0.2, dtype=np.float32)), tmp_path / "a.tif")
    assert (read(path, colour=False) == 51).all()


def test_a_camera_held_sideways(tmp_path: Path) -> None:
    image = Image.new("L", (60, 30))
    image.paste(255, (0, 0, 30, 30))  # white at the left
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it to the right: white is above
    pixels = read(save(image, tmp_path / "a.jpg", exif=exif), colour=False, height=20, width=None)
    assert pixels.shape == (20, 10, 1)
    assert pixels[:8].min() > 240 > 20 > pixels[-8:].max()


def test_a_large_photo_is_read_at_a_fraction(tmp_path: Path) -> None:
    x = np.linspace(0, 255, 1600).astype(np.uint8)
    path = save(Image.fromarray(np.tile(x, (1200, 1))), tmp_path / "a.jpg")
    pixels = read(path, colour=False, height=30, width=None)
    assert pixels.shape == (30, 40, 1)
    assert np.abs(pixels[15, :, 0] - np.linspace(3, 252, 40)).max() < 3


@pytest.mark.parametrize(("size", "rows", "columns"), [((40, 20), (2, 6), (0, 8)), ((10, 40), (0, 8), (3, 5))])
def test_inside_height_and_width_the_aspect_is_kept(
    tmp_path: Path, size: tuple[int, int], rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    image = Image.new("RGB", size, (0, 0, 40))
    image.paste((0, 100, 40), (0, 0, size[0], size[1] // 2))
    pixels = read(save(image, tmp_path / "a.png"), height=8, width=8)
    inside = np.zeros((8, 8), dtype=bool)
    inside[slice(*rows), slice(*columns)] = True
    assert {pixels[inside][:, 1].min(), pixels[inside][:, 1].max()} == {0, 100}
    assert (pixels[~inside] == (0, 50, 40)).all()  # its mean shade, about 0 for the network


def test_lines_are_as_wide_as_they_are(tmp_path: Path) -> None:
    for width, expected in ((100, 50), (31, 16), (1, 1)):
        path = save(Image.new("L", (width, 20)), tmp_path / "a.png")
        assert read(path, height=10, width=None, colour=False).shape == (10, expected, 1)


def test_the_picture_as_it_looks(tmp_path: Path) -> None:
    image = np.random.default_rng(1).integers(0, 256, (6, 5, 3), dtype=np.uint8)
    path = save(Image.fromarray(image), tmp_path / "a.png")
    reader = ImageReader(ImageConfig(height=6, width=5))
    assert reader.picture(reader.read(str(path))) == pytest.approx(image / 255, abs=1e-6)
    grey = ImageReader(ImageConfig(height=6, width=None, colour=False))
    assert grey.picture(grey.read(str(path))).shape == (6, 5)


def test_what_a_model_keeps_is_the_section() -> None:
    config = ImageConfig(height=8, width=None, colour=False, shift=0.1)
    assert ImageConfig.model_validate_json(ImageReader(config).json()) == config


@pytest.fixture
def spot(tmp_path: Path) -> Path:
    """A dark square in the middle of light grey."""
    image = Image.new("L", (40, 40), 200)
    image.paste(60, (16, 16, 24, 24))
    return save(image, tmp_path / "spot.png")


def dark(pixels: np.ndarray) -> np.ndarray:
    return pixels[..., 0] < 130


@pytest.mark.parametrize("width", [40, None])
def test_shift_moves(spot: Path, width: int | None) -> None:
    before = np.argwhere(dark(read(spot, height=40, width=width))).mean(0)
    moved = []
    for seed in range(20):
        pixels = read(spot, np.random.default_rng(seed), height=40, width=width, shift=0.2)
        assert abs(dark(pixels).sum() - 64) <= 16  # as large as it was
        assert pixels[0, 0, 0] == pixels[-1, -1, 0] == 200  # the paper goes on
        moved.append(np.argwhere(dark(pixels)).mean(0) - before)
    for way in (0, 1):
        along = [step[way] for step in moved]
        assert -8.6 < min(along) < -3 < 3 < max(along) < 8.6  # a fifth of 40 is 8


def test_scale_makes_smaller_and_larger(spot: Path) -> None:
    sizes = [dark(read(spot, np.random.default_rng(s), height=40, width=40, scale=0.5)).sum() for s in range(20)]
    assert 10 <= min(sizes) < 45 < 90 < max(sizes) <= 150
    lines = [dark(read(spot, np.random.default_rng(s), height=40, width=None, scale=0.5)).sum() for s in range(20)]
    assert 10 <= min(lines) < 45 < max(lines) <= 64  # a line never grows: its ends would be cut off


def test_contrast_makes_shades_darker_and_lighter(tmp_path: Path) -> None:
    """Gamma changes the greys between black and white; a front end sees another picture."""
    image = Image.new("L", (40, 40), 255)
    image.paste(0, (0, 0, 40, 10))
    image.paste(128, (0, 10, 40, 20))
    path = save(image, tmp_path / "shades.png")
    found = [read(path, np.random.default_rng(s), height=40, width=40, contrast=0.5) for s in range(20)]
    assert all((one[5, 5, 0], one[35, 5, 0]) == (0, 255) for one in found)
    middle = [one[15, 5, 0] for one in found]
    assert 255 * 0.5**1.5 - 1 < min(middle) < 100 < 150 < max(middle) < 255 * 0.5 ** (1 / 1.5) + 2
    torch.manual_seed(1)
    reader, cells = ImageConfig(height=40, width=40), CellsConfig(channels=[4], dropout=0.0)
    front = build_front_end(SourceSpec(reader, size=0), cells, 8)
    rows = [torch.from_numpy(one.transpose(1, 0, 2).reshape(1, 40, -1) / 127.5 - 1.0).float() for one in found[:2]]
    seen = [front(Sequence(row, torch.ones(1, 40, dtype=torch.bool))).values for row in rows]
    assert (seen[0] - seen[1]).abs().max() > 0.01


@pytest.mark.parametrize("key", ["shift", "scale", "contrast"])
def test_changes_are_drawn_from_the_chance_alone(spot: Path, key: str) -> None:
    keys = {"height": 40, "width": 40, key: 0.3}
    plain = read(spot, height=40, width=40)
    one, same, other = (read(spot, np.random.default_rng(seed), **keys) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()
    assert (one != plain).any()
    assert (read(spot, **keys) == plain).all()  # not in training
    assert (read(spot, np.random.default_rng(1), height=40, width=40) == plain).all()  # all off
