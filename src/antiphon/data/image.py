"""Pictures as sources: a row of columns of pixels."""
# H height, W width, C colours

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from antiphon.config.sources import ImageConfig
from antiphon.data.augment import PictureAugmentation
from antiphon.data.source import Array, FileSource, Random, UnreadableError
from antiphon.errors import AntiphonError, MissingExtraError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["SUFFIXES", "ImageReader", "fit_picture", "normalise_pixels", "open_picture", "shown", "to_picture"]

# Only formats that Pillow decodes itself: it passes an EPS to another program.

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm")
MOST_PIXELS = 64_000_000  # more is a mistake or an attack: a small file can decompress to gigabytes
ORIENTATION = 0x0112  # the EXIF tag
SIDEWAYS = (5, 6, 7, 8)


@contextmanager
def open_picture(path: str) -> Iterator[Image]:
    """The picture, of which only the header has been read; every failure while it is open is an UnreadableError."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError(
            "pictures need the package Pillow, which is not installed; run: pip install 'antiphon[image]'"
        ) from error
    try:
        with Image.open(path, formats=FORMATS) as image:
            _check_size(*image.size)
            yield image
    except (UnreadableError, AntiphonError, MemoryError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadableError(f"a picture of more than {MOST_PIXELS:,} pixels") from error
    except UnidentifiedImageError as error:
        empty = Path(path).stat().st_size == 0
        raise UnreadableError("an empty file" if empty else f"not a picture ({', '.join(FORMATS)})") from error
    except FileNotFoundError as error:
        raise UnreadableError("no such file") from error
    except IsADirectoryError as error:
        raise UnreadableError("a folder, not a picture") from error
    except Exception as error:  # a damaged file can make the decoders raise anything
        raise UnreadableError(f"a damaged picture ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _check_size(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise UnreadableError(f"a picture of {width} x {height} pixels")
    if width * height > MOST_PIXELS:
        raise UnreadableError(f"a picture of {width:,} x {height:,} pixels, more than {MOST_PIXELS:,}")


def _orientation(image: Image) -> int:
    # If it is not in the header, reading it would decode a whole PNG.
    return int(image.getexif().get(ORIENTATION, 1)) if "exif" in image.info else 1


def _upright_size(image: Image) -> tuple[int, int]:
    """Width and height of the upright picture."""
    width, height = image.size
    return (height, width) if _orientation(image) in SIDEWAYS else (width, height)


def scaled_width(image: Image, height: int) -> int:
    """The width at this height, aspect kept; at least 1."""
    across, down = _upright_size(image)
    width = max(1, round(across * height / down))
    _check_size(width, height)
    return width


def fit_picture(image: Image, *, colour: bool, height: int, width: int | None) -> Array:
    """Bytes [H, W, C], aspect kept; with a width, the picture is centred in height x width.

    The margins have its mean shade: about 0 for a front end that standardises pictures.
    """
    from PIL import Image, ImageOps

    across, down = _upright_size(image)
    if width is None:
        size = (scaled_width(image, height), height)
    else:
        share = min(width / across, height / down)
        size = (max(1, round(across * share)), max(1, round(down * share)))
    image.draft(None, (max(size), max(size)))  # a large JPEG is decoded at a half, a quarter or an eighth
    upright = ImageOps.exif_transpose(image) if _orientation(image) > 1 else image
    small = _plain(upright, "RGB" if colour else "L").resize(size, Image.Resampling.BILINEAR)
    if width is not None:
        canvas = Image.new(small.mode, (width, height), _mean_shade(small))
        canvas.paste(small, ((width - size[0]) // 2, (height - size[1]) // 2))
        small = canvas
    return np.asarray(small).reshape(small.height, small.width, -1)


def _mean_shade(image: Image) -> int | tuple[int, ...]:
    """The mean grey, or the mean of each colour."""
    means = np.rint(np.asarray(image).mean((0, 1))).astype(int)
    return int(means) if means.ndim == 0 else tuple(int(mean) for mean in means)


def _plain(image: Image, mode: str) -> Image:
    """The picture in 8 bits; grey is luminance (ITU-R 601), transparent pixels are white."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        brightest = 1.0 if image.mode == "F" else 65535.0
        return Image.fromarray(_shades(np.asarray(image), brightest)).convert(mode)
    if image.has_transparency_data:
        with_alpha = image.convert("RGBA")
        paper = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(paper, with_alpha).convert(mode)
    # Pillow cannot convert LAB to grey directly.
    return (image.convert("RGB") if image.mode == "LAB" else image).convert(mode)


def _shades(values: Array, brightest: float) -> Array:
    """Shades from 0 (black) to `brightest` as bytes."""
    lowest, highest = float(values.min()), float(values.max())
    if not (lowest >= 0.0 and highest <= brightest):  # false for NaN, too
        raise UnreadableError(f"shades from {lowest:g} to {highest:g}, where 0 to {brightest:g} are expected")
    return np.asarray(np.rint(values * np.float32(255.0 / brightest)), dtype=np.uint8)


def to_picture(frame: Array) -> Image:
    """An array [H, W] or [H, W, C] as a picture; C is 1, 3 or 4 (with alpha).

    Real numbers go from 0 to 1, 16 bits to 65,535, all other whole numbers to 255.
    """
    from PIL import Image

    if frame.dtype.kind not in "biuf":
        raise UnreadableError(f"values of type {frame.dtype}, where numbers are expected")
    brightest = {"b": 1.0, "f": 1.0}.get(frame.dtype.kind, 65535.0 if frame.dtype.itemsize == 2 else 255.0)
    grey = frame.ndim == 3 and frame.shape[-1] == 1
    return Image.fromarray(_shades(frame[..., 0] if grey else frame, brightest))


class ImageReader(FileSource):
    """A picture as [W, H C]: for each column its pixels from the top, their colours side by side."""

    def __init__(self, config: ImageConfig) -> None:
        self.config = config
        self.kind = config.kind
        self.size = config.height * (3 if config.colour else 1)

    def length(self, cell: str) -> int:
        with open_picture(cell) as image:
            return self.config.width or scaled_width(image, self.config.height)

    def read(self, cell: str, chance: Random | None = None) -> Array:
        config = self.config
        with open_picture(cell) as image:
            pixels = fit_picture(image, colour=config.colour, height=config.height, width=config.width)
        if chance is not None and (variation := PictureAugmentation.drawn(config, chance, whole=config.width is None)):
            pixels = variation.apply(pixels)
        return normalise_pixels(pixels.swapaxes(0, 1)).reshape(pixels.shape[1], self.size)

    def picture(self, values: Array) -> Array:
        """The picture of values [W, H C]: [H, W] or [H, W, 3] from 0 to 1."""
        return shown(values.reshape(len(values), self.config.height, -1).swapaxes(0, 1))

    def json(self) -> str:
        return self.config.model_dump_json()


def normalise_pixels(pixels: Array) -> Array:
    """Bytes as numbers from -1 (black) to 1 (white)."""
    return np.ascontiguousarray(pixels, dtype=np.float32) / np.float32(127.5) - np.float32(1.0)


def shown(values: Array) -> Array:
    """Values from -1 to 1 [..., C] as shades from 0 to 1, without the axis of a single colour."""
    shades = (values + 1.0) / 2.0
    return shades[..., 0] if shades.shape[-1] == 1 else shades
