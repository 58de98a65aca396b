"""antiphon export, antiphon import"""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.io import program, say

__all__ = ["export", "import_"]

# antiphon export


class ExportEngine(StrEnum):
    """The engines there are."""

    ctranslate2 = "ctranslate2"
    onnx = "onnx"
    huggingface = "huggingface"


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder.")],
    to: Annotated[
        ExportEngine,
        typer.Option(
            help="ctranslate2: Transformers, the fastest on a CPU. onnx: any model with one text "
            "source and without model.copy, for onnxruntime. "
            "huggingface: Transformers, as a Marian model of `transformers`."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist yet.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights of 8 bits: a quarter of the size, and nearly the same answers.")
    ] = False,
) -> None:
    """Write a model for another engine.

    generate, score, evaluate and explain read the new folder like a run, and refuse what its engine cannot do.
    """
    from antiphon import api
    from antiphon.export.base import read_export

    say(f"writing {run} for {to.value}{', with weights of 8 bits' if int8 else ''}")
    folder = api.export_model(run, to.value, out, int8=int8)
    for note in read_export(folder).facts.get("notes", []):
        say(note)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    say(f"wrote {folder} ({size / 1e6:.1f} MB); next: {program()} generate {shlex.quote(str(folder))} FILE")


def import_(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A Marian (OPUS-MT) or BART folder of `transformers`.")
    ],
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The model folder to write; it must not exist yet.")],
) -> None:
    """Read a Marian or BART folder of `transformers`.

    Its weights must be safetensors. Features that Antiphon lacks are reported, here and in the new folder's card.md.
    """
    from antiphon import api

    say(f"reading {folder}")
    model = shlex.quote(str(api.import_model(folder, out, say=say)))
    say(f"wrote {out}; next: {program()} generate {model} FILE, or {program()} explain {model} TEXT")
