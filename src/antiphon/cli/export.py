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
    out: Annotated[Path, typer.Option(help="The folder (or file) to write; it must not exist yet.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights of 8 bits: a quarter of the size, and nearly the same answers.")
    ] = False,
    with_search: Annotated[
        bool,
        typer.Option(
            "--with-search",
            help="With onnx: one file that has the whole search in it, ids in and ids out, for programs with nothing "
            "but onnxruntime: browsers, phones, C#.",
        ),
    ] = False,
) -> None:
    """Write a model for another engine.

    generate, score, evaluate and explain read the new folder like a run, and refuse what its engine cannot do. A file
    with its search is for other programs.
    """
    from antiphon import api
    from antiphon.export.base import read_export

    say(f"writing {run} for {to.value}{', with weights of 8 bits' if int8 else ''}")
    folder = api.export_model(run, to.value, out, int8=int8, with_search=with_search)
    if with_search:
        from antiphon.export.onnx_search import read_facts

        for name in read_facts(folder)["left_out"]:
            say(f"decoding.{name}: the run uses it, and the search in the file does not")
        say(f"wrote {folder} ({folder.stat().st_size / 1e6:.1f} MB); examples/onnx_plain.py answers with it")
        return
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
