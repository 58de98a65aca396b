"""The sources of an input as the model reads them, to draw attention over them: JSON of a bounded size."""
# S steps, D values of a step, H x W pixels, C colours

from __future__ import annotations

import base64
import io
import math
from typing import Any

import numpy as np

from antiphon.data.audio import AudioReader
from antiphon.data.augment import standardise
from antiphon.data.image import ImageReader
from antiphon.data.source import Array, SingleSource
from antiphon.data.tokenizers import Tokenizer
from antiphon.data.video import FramesReader
from antiphon.inference.generation import SourceSpan
from antiphon.inference.generator import Generator
from antiphon.inference.given_answer import read_input
from antiphon.models.frontends.audio_frontend import TimedFrontEnd
from antiphon.models.frontends.frontend import FrontEnd

__all__ = ["view_sources"]

SPREAD = 2.5  # standard deviations from the mean to the darkest and to the brightest value
MOST_STEPS, MOST_VALUES = 4000, 256  # of an array; of more the means of neighbours are shown
MOST_PIXELS = 1_000_000  # of a film strip


def view_sources(generator: Generator, text: str) -> dict[str, Any]:
    """Each source of an input, and the flags of reading it.

    A text has its `tokens`; an image its `picture` (PNG as a data: URL) in `width` x `height` pixels and its `grid`,
    the rows and columns of its cells; a video the same as a strip of frames. Other files are `values`: [frames][bands]
    as bytes in base64, the lowest band first. A byte b stands for b / 255 of the way from `low` to `high` standard
    deviations around the mean of its band. `factor` is the number of frames to a position, `seconds` the length of a
    sound.
    """
    encoded = read_input(generator, text)
    spans = generator.codec.spans(encoded)
    if not spans:  # a language model
        tokens = generator.codec.source_symbols(encoded)
        return {"sources": [{"kind": "text", "text": encoded.text, "tokens": tokens}], "flags": encoded.flags}
    symbols = generator.codec.source_symbols(encoded)
    arrays = encoded.source if isinstance(encoded.source, tuple) else (encoded.source,)
    shown = []
    for span, values in zip(spans, arrays, strict=True):
        reader, here = generator.source.parts[span.source], symbols[span.first : span.last + 1]
        if isinstance(reader, Tokenizer) or isinstance(values, list):
            shown.append({"kind": span.kind, "text": span.text, "tokens": here})
        else:
            front = generator.model.front_ends[span.source]
            shown.append({"kind": span.kind, "names": here, **_file_view(reader, values, span, front)})
    return {"sources": shown, "flags": encoded.flags}


def _file_view(reader: SingleSource, values: Array, span: SourceSpan, front: FrontEnd) -> dict[str, Any]:
    factor = front.factor if isinstance(front, TimedFrontEnd) else 1
    match reader:
        case ImageReader():
            return {**_picture(reader.picture(values)), "grid": span.grid}
        case FramesReader():
            return {**_strip(reader.picture(values)), "frames": len(values)}
        case AudioReader():
            return {**_bytes(values), "seconds": len(values) * reader.config.step / 1000, "factor": factor}
        case _:
            return {**_bytes(values), "seconds": None, "factor": factor}


def _picture(shades: Array) -> dict[str, Any]:
    """Shades from 0 to 1 [H, W] or [H, W, 3] as a PNG."""
    from PIL import Image  # of the extra `image`, which the source has needed

    content = io.BytesIO()
    Image.fromarray(np.rint(255 * np.clip(shades, 0, 1)).astype(np.uint8)).save(content, "PNG")
    encoded = base64.b64encode(content.getvalue()).decode()
    return {"picture": f"data:image/png;base64,{encoded}", "width": shades.shape[1], "height": shades.shape[0]}


def _strip(frames: Array) -> dict[str, Any]:
    """The frames [S, H, W] or [S, H, W, 3] side by side; of many, smaller ones."""
    step = math.ceil(math.sqrt(frames.shape[0] * frames.shape[1] * frames.shape[2] / MOST_PIXELS))
    return {**_picture(np.concatenate(list(frames[:, ::step, ::step]), axis=1)), "grid": (1, len(frames))}


def _bytes(values: Array) -> dict[str, Any]:
    """The array [S, D] as bytes, each value relative to the mean of its band, so that small ones show beside large."""
    near = _means(_means(standardise(values), MOST_STEPS).T, MOST_VALUES).T
    shares = np.clip((near + SPREAD) / (2 * SPREAD), 0, 1)
    content = np.rint(255 * shares).astype(np.uint8).tobytes()
    return {
        "values": base64.b64encode(content).decode(),
        "frames": near.shape[0],
        "bands": near.shape[1],
        "low": -SPREAD,
        "high": SPREAD,
    }


def _means(values: Array, most: int) -> Array:
    """The rows, or the means of neighbours if there are more than `most`."""
    if len(values) <= most:
        return values
    return np.stack([part.mean(axis=0) for part in np.array_split(values, most)])
