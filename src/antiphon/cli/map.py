"""antiphon map"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from antiphon.cli.files import say_dropped
from antiphon.cli.lines import input_lines
from antiphon.cli.output import put_line, say

if TYPE_CHECKING:
    from antiphon.pictures.sentences import Pool

__all__ = ["map_"]

LISTED = 20  # flags that are said; the rest is counted


class Pooling(StrEnum):
    """How the states of a sentence become one vector."""

    last = "last"
    mean = "mean"
    max = "max"


def map_(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Sentences: lines, or the source column of a .tsv, .csv or .jsonl; -: stdin."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg or .html file; without it X, Y, SENTENCE go to stdout.")
    ] = None,
    pool: Annotated[
        Pooling | None,
        typer.Option(
            help="One vector of a sentence's states: the last, their mean or their max. "
            "Default: last for recurrent networks and language models, mean for other encoders."
        ),
    ] = None,
) -> None:
    """Draw sentences as points in the plane: like ones lie close.

    The states of the encoder are projected on the two directions in which they differ most (PCA). In a picture only
    labels that have room are written; an .html file can be searched and zoomed.
    """
    from antiphon import api
    from antiphon.errors import UserError

    if out is not None and out.suffix.lower() not in (".png", ".svg", ".html"):
        raise UserError(f"{out}: a map is PNG, SVG or HTML; give a name that ends in .png, .svg or .html")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"{out}: there is no folder {out.parent}; make it first")
    generator = api.load(run)
    if file == "-":
        sentences = list(dict.fromkeys(line for line in input_lines(file) if line.strip()))
    else:
        sentences, dropped = api.read_sentences(generator, file)
        say_dropped(dropped.facts())
    title = "" if file == "-" else f"{len(sentences):,} sentences of {Path(file).name}"
    found = api.map_sentences(generator, sentences, out, pool=cast("Pool | None", pool and pool.value), title=title)
    say_flags(found.flags)
    across, down = found.plane.shares
    say(f"{found.made_of}; {across:.0%} and {down:.0%} of the variance")
    if out is not None:
        say(f"wrote {out}")
        return
    for (x, y), sentence in zip(found.plane.points.tolist(), found.sentences, strict=True):
        put_line(f"{x:.4f}", f"{y:.4f}", sentence)


def say_flags(flags: list[str]) -> None:
    """The first of them, and how many there are."""
    for flag in flags[:LISTED]:
        say(flag)
    if len(flags) > LISTED:
        say(f"{len(flags) - LISTED} more sentences are flagged")
