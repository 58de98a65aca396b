"""Models that read files and have learnt nothing; their weights come from a formula."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from feature_tables import values, write_table
from source_files import write_file
from tiny_models import fill

from antiphon.config.schema import Config
from antiphon.config.sources import AudioConfig, FramesConfig, ImageConfig
from antiphon.data.prepare import prepare
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, fresh_model, save_model

COUNT: dict[str, Any] = {"kind": "text", "column": "count", "tokens": "words"}
FEATURES: dict[str, Any] = {"kind": "features", "column": "path", "max_length": 4}
IMAGE: dict[str, Any] = {"kind": "image", "column": "image", "height": 16, "width": 32}
AUDIO: dict[str, Any] = {"kind": "audio", "column": "audio", "mels": 6}
FRAMES: dict[str, Any] = {"kind": "frames", "column": "frames", "height": 16, "width": 16}
CELLS: dict[str, Any] = {"kind": "cells", "channels": [4, 8]}
SECTIONS = {"image": ImageConfig, "audio": AudioConfig, "frames": FramesConfig}


def file_generator(folder: Path, source: Any, **model: Any) -> Generator:  # noqa: ANN401 (any section)
    """A model of these sources; the files it has read are those of `given_file`."""
    table = write_table(folder)
    kinds = [one["kind"] for one in (source if isinstance(source, list) else [source]) if one["kind"] in SECTIONS]
    if kinds:
        head, *lines = table.read_text().splitlines()
        rows = [
            "\t".join([line, *(given_file(folder, kind, 8 + number) for kind in kinds)])
            for number, line in enumerate(lines[:12])
        ]
        table.write_text("\n".join(["\t".join([head, *kinds]), *rows]) + "\n")
    written = values(table)
    data = {**written["data"], "source": source}
    config = Config.model_validate({**written, "data": data, "model": {**written["model"], **model}})
    read = prepare(config.data, lambda _: None)
    made = fresh_model(config, read.source, read.target_tokenizer)
    fill(made, scale=1.1)
    return Generator(LoadedModel(config, made.eval(), read.source, read.target_tokenizer))


def given_file(folder: Path, kind: str, length: int) -> str:
    """A picture, a sound or a video of this length."""
    return write_file(SECTIONS[kind], folder / kind, str(length), length)


def save_generator(made: Generator, folder: Path) -> str:
    """The model as a folder."""
    save_model(folder, made.config, made.model.state_dict(), made.source, made.target_tokenizer)
    return str(folder)
