"""antiphon import"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.output import program, say

__all__ = ["import_"]


def import_(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A Marian (OPUS-MT) or BART folder of `transformers`.")
    ],
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The model folder to write; it must not be there yet.")],
) -> None:
    """Read a Marian or BART folder of `transformers`.

    Its weights must be safetensors. What it has that Antiphon lacks is said; the new folder's card.md says it, too.
    """
    from antiphon import api

    say(f"reading {folder}")
    model = shlex.quote(str(api.import_model(folder, out, say=say)))
    say(f"wrote {out}; next: {program()} generate {model} FILE, or {program()} explain {model} TEXT")
