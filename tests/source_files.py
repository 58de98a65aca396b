"""Files that sources are read from: pictures, videos, sounds and vectors of chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from PIL import Image
from pydantic import BaseModel

from antiphon.config.sources import AudioConfig, FramesConfig, ImageConfig


def write_file(section: type[BaseModel], folder: Path, name: str, length: int) -> str:
    """A file of this kind, of so many positions (of a picture: pixels across; of a sound: hundredths of a second)."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(length)
    if section is ImageConfig:
        path = folder / f"{name}.png"
        Image.fromarray(draw.integers(0, 256, (24, length, 3), np.uint8)).save(path)
    elif section is FramesConfig:
        path = folder / f"{name}.npy"
        np.save(path, draw.integers(0, 256, (length, 24, 30, 3), np.uint8))
    elif section is AudioConfig:
        path = folder / f"{name}.wav"
        soundfile.write(path, 0.1 * draw.normal(size=160 * length), 16_000)
    else:
        path = folder / f"{name}.npy"
        np.save(path, draw.normal(size=(length, 6)).astype(np.float32))
    return str(path)
