"""Videos as sources: a sequence of frames, from a folder of pictures or an array."""
# T frames, H height, W width, C colours

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from antiphon.config.sources import FramesConfig
from antiphon.data.arrays import HEADERS
from antiphon.data.augment import PictureAugmentation
from antiphon.data.image import SUFFIXES, fit_picture, normalise_pixels, open_picture, shown, to_picture
from antiphon.data.source import Array, FileSource, Random, UnreadableError
from antiphon.text import natural_order

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["FramesReader"]


class FramesReader(FileSource):
    """A folder of pictures, or an .npy array [T, H, W] or [T, H, W, C], as [T, H W C]."""

    def __init__(self, config: FramesConfig) -> None:
        self.config = config
        self.kind = config.kind
        self.size = config.height * config.width * (3 if config.colour else 1)

    def length(self, cell: str) -> int:
        path = Path(cell)
        return len(_pictures(path) if os.path.isdir(path) else _array(path))

    def read(self, cell: str, chance: Random | None = None) -> Array:
        path = Path(cell)
        frames = self._from_folder(path) if os.path.isdir(path) else self._from_array(path)
        if chance is not None and (variation := PictureAugmentation.drawn(self.config, chance, whole=False)):
            frames = [variation.apply(frame) for frame in frames]
        return normalise_pixels(np.stack(frames)).reshape(len(frames), self.size)

    def picture(self, values: Array) -> Array:
        """The frames of values [T, H W C]: [T, H, W] or [T, H, W, 3] from 0 to 1."""
        return shown(values.reshape(len(values), self.config.height, self.config.width, -1))

    def json(self) -> str:
        return self.config.model_dump_json()

    def _from_folder(self, folder: Path) -> list[Array]:
        frames = []
        for path in _pictures(folder):
            try:
                with open_picture(str(path)) as image:
                    frames.append(self._fit(image))
            except UnreadableError as error:
                raise UnreadableError(f"{path.name}: {error}") from error
        return frames

    def _from_array(self, path: Path) -> list[Array]:
        return [self._fit(to_picture(np.asarray(frame))) for frame in _array(path)]

    def _fit(self, image: Image) -> Array:
        return fit_picture(image, colour=self.config.colour, height=self.config.height, width=self.config.width)


def _pictures(folder: Path) -> list[Path]:
    """The pictures of a folder in natural order: 2 comes before 10."""
    try:
        paths = [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")]
    except OSError as error:
        raise UnreadableError(f"a folder that cannot be read ({error.strerror})") from error
    if not paths:
        raise UnreadableError("a folder without pictures")
    return sorted(paths, key=lambda path: (natural_order(path.name), path.name))


def _array(path: Path) -> Array:
    """The array, mapped from the file."""
    try:
        with HEADERS:
            array = np.lib.format.open_memmap(path, mode="r")  # refuses Python objects, and archives
    except FileNotFoundError as error:
        raise UnreadableError("no such file") from error
    except (OSError, ValueError, EOFError) as error:
        raise UnreadableError("neither a folder of pictures nor an array of numbers (.npy)") from error
    colours = array.shape[3:]
    if array.ndim not in (3, 4) or 0 in array.shape or (colours and colours[0] not in (1, 3, 4)):
        raise UnreadableError(
            f"an array of shape {list(array.shape)}, where [frames, height, width] or "
            "[frames, height, width, colours] with 1, 3 or 4 colours is expected"
        )
    return array
