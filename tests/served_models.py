"""Model folders that the tests serve: beside those of tiny_generators pictures, sounds, four sources, labels, turns."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tiny_generators import GRU, RECURRENT, SOURCE, TARGET, tiny_folder
from tiny_models import fill

from antiphon.config.schema import Config
from antiphon.data.build_source import combine_sources, file_source
from antiphon.data.source import SingleSource
from antiphon.inference.conversation import TurnFormat
from antiphon.inference.flags import FlagLimits
from antiphon.model_folder import fresh_model, save_model

__all__ = ["KINDS", "model_folder", "npy_bytes", "png_bytes", "wav_bytes"]

BAHDANAU = {"kind": "bahdanau", **RECURRENT}
CELLS = {"kind": "cells", "channels": [3, 4], "blocks": 1, "dropout": 0.0}
WORDS = {"kind": "text", "tokens": "words"}
IMAGE = {"kind": "image", "height": 16, "width": 16, "colour": False}
AUDIO = {"kind": "audio", "mels": 6}
LINEAR = {"kind": "linear", "dropout": 0.0}
KINDS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "image": ([IMAGE], {"encoder": GRU, "front": CELLS, "decoder": BAHDANAU}),
    "sound": ([AUDIO], {"encoder": GRU, "front": {**LINEAR, "stack": 4}, "decoder": BAHDANAU}),
    "several": (
        [
            {**WORDS, "column": "question"},
            {**IMAGE, "column": "picture"},
            {**AUDIO, "column": "sound"},
            {"kind": "features", "column": "array"},
        ],
        {"encoder": GRU, "front": [None, CELLS, LINEAR, LINEAR], "decoder": BAHDANAU},
    ),
    "tagger": ([WORDS], {"kind": "tagger", "encoder": GRU, "decoder": {"dropout": 0.0}}),
}  # fmt: skip


def model_folder(kind: str, folder: Path) -> str:
    """A model that has learnt nothing, by its name here or in tiny_generators."""
    if kind == "dialogue":  # of at most three turns
        FlagLimits(turns=TurnFormat(" b ", 3)).save(folder := Path(tiny_folder("bahdanau", folder)))
        return str(folder)
    if kind not in KINDS:
        return tiny_folder(kind, folder)
    sources, model = KINDS[kind]
    placed = [{"column": number, **source} for number, source in enumerate(sources)]
    source = placed if len(placed) > 1 else placed[0]
    data = {"train": "table.tsv", "source": source, "target": {"tokens": "words", "column": "answer"}}
    if all(isinstance(one["column"], int) for one in placed):
        data["target"]["column"] = len(placed)
    search = {} if kind == "tagger" else {"beam": 1, "max_length": 6}
    config = Config.model_validate({"data": data, "model": model, "decoding": search})
    folder.mkdir(parents=True)
    example = folder / "example.npy"  # tells the width of the vectors
    example.write_bytes(npy_bytes())
    parts: list[SingleSource] = [
        SOURCE if one.kind == "text" else file_source(one, [str(example)]) for one in config.data.sources
    ]
    example.unlink()
    read = combine_sources(parts)
    made = fresh_model(config, read, TARGET).eval()
    fill(made, scale=1.1)
    save_model(folder, config, made.state_dict(), read, TARGET)
    return str(folder)


def png_bytes(number: int = 1) -> bytes:
    """A picture of chance."""
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(number).integers(0, 256, (16, 16, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


def wav_bytes(number: int = 1) -> bytes:
    """A quarter of a second of noise."""
    import soundfile

    file = io.BytesIO()
    noise = 0.1 * np.random.default_rng(number).normal(size=4000)
    soundfile.write(file, noise, 16_000, format="WAV")
    return file.getvalue()


def npy_bytes(number: int = 1) -> bytes:
    """Vectors of chance."""
    file = io.BytesIO()
    np.save(file, np.random.default_rng(number).normal(size=(4, 5)).astype(np.float32))
    return file.getvalue()
