"""Pictures that cannot be read: a fact in a few words, never another exception."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from antiphon.config.sources import ImageConfig
from antiphon.data.image import ImageReader
from antiphon.data.source import UnreadableError

READER = ImageReader(ImageConfig(height=8, width=8))
LINES = ImageReader(ImageConfig(height=64, width=None, colour=False))


def fact(path: Path, reader: ImageReader = READER) -> str:
    with pytest.raises(UnreadableError) as caught:
        reader.read(str(path))
    return str(caught.value)


def png(width: int, height: int, body: bytes = b"") -> bytes:
    """A PNG of grey whose header claims this size."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(body)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_the_png_of_this_test_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(2, 1, b"\x00\xff\xff"))
    assert (READER.read(str(tmp_path / "a.png"))[3] >= 0.0).all()


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif", "a.bmp", "a.tif", "a.webp"])
def test_truncated_anywhere(tmp_path: Path, name: str) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for share in (0.05, 0.3, 0.6, 0.9):
        (tmp_path / name).write_bytes(whole[: int(share * len(whole))])
        assert fact(tmp_path / name).startswith(("a damaged picture (", "not a picture ("))


def test_flipped_bytes_are_read_or_refused(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    noise = chance.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    for name in ("a.png", "a.jpg", "a.gif"):
        Image.fromarray(noise).save(tmp_path / name)
        whole = (tmp_path / name).read_bytes()
        for _ in range(40):
            spoilt = bytearray(whole)
            for place in chance.integers(0, len(whole), 5):
                spoilt[place] = int(chance.integers(0, 256))
            (tmp_path / name).write_bytes(spoilt)
            with suppress(UnreadableError):
                assert READER.read(str(tmp_path / name)).shape == (8, 24)


def test_what_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("by the name of PNG")
    assert fact(tmp_path / "text.png") == "not a picture (PNG, JPEG, GIF, BMP, TIFF, WEBP, PPM)"
    (tmp_path / "empty.png").touch()
    assert fact(tmp_path / "empty.png") == "an empty file"
    assert fact(tmp_path / "missing.png") == "no such file"
    assert fact(tmp_path) == "a folder, not a picture"
    assert fact(tmp_path / "a\0b.png").startswith("a damaged picture (")
    (tmp_path / "a.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n")
    assert fact(tmp_path / "a.eps").startswith("not a picture")  # Pillow would start another program


def test_the_header_tells_as_much_as_it_can(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("text")
    for path in (tmp_path / "text.png", tmp_path / "missing.png"):
        with pytest.raises(UnreadableError):
            READER.length(str(path))


def test_no_pixels_and_too_many(tmp_path: Path) -> None:
    (tmp_path / "none.png").write_bytes(png(0, 5))
    assert fact(tmp_path / "none.png").startswith(("a picture of 0 x 5", "a damaged picture", "not a picture"))
    (tmp_path / "none.ppm").write_bytes(b"P5 0 5 255\n")
    assert fact(tmp_path / "none.ppm")
    for side, words in (
        (8_001, "a picture of 8,001 x 8,001 pixels, more than 64,000,000"),
        (10_000, "a picture of more than 64,000,000 pixels"),  # Pillow warns
        (60_000, "a picture of more than 64,000,000 pixels"),  # Pillow refuses
    ):
        (tmp_path / "bomb.png").write_bytes(png(side, side))
        assert fact(tmp_path / "bomb.png") == words


def test_a_line_that_would_become_endless(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(50_000, 1, b"\x00" * 50_001))
    assert fact(tmp_path / "a.png", LINES) == "a picture of 3,200,000 x 64 pixels, more than 64,000,000"


def test_shades_beyond_16_bits(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 70_000, dtype=np.int32)).save(tmp_path / "a.tif")
    assert fact(tmp_path / "a.tif") == "shades from 70000 to 70000, where 0 to 65535 are expected"
