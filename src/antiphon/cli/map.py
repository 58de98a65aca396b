"""antiphon map"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from antiphon.cli.io import input_lines, put_line, say, say_dropped

if TYPE_CHECKING:
    from antiphon.inference.generator import Generator
    from antiphon.plots.sentence_map import Pool

__all__ = ["map_"]

LISTED = 20  # sentences of which something is said; the rest is counted


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
        Path | None, typer.Option(help="A .png or .svg file; without it X, Y, SENTENCE go to stdout.")
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

    The states of the encoder are projected on the two directions in which they differ most (PCA). A picture has only
    labels that do not overlap.
    """
    from antiphon import api
    from antiphon.errors import DataError, UserError
    from antiphon.plots.sentence_map import draw_map, few_problems
    from antiphon.plots.style import folder_problems, suffix_problems

    if out is not None and (problems := suffix_problems(out) or folder_problems(out)):
        raise UserError(problems)
    generator = api.load(run)
    sentences = said_once() if file == "-" else of_file(generator, file)
    if problems := few_problems("stdin" if file == "-" else file, len(sentences)):
        raise DataError(problems)
    found = api.map_sentences(generator, sentences, pool=cast("Pool | None", pool and pool.value))
    say_flags(found.flags)
    say(f"{found.made_of}; {found.spread}")
    if out is not None:
        name = "" if file == "-" else f" of {Path(file).name}"
        draw_map(found, out, title=f"{len(found.sentences):,} sentences{name}")
        say(f"wrote {out}")
        return
    for (x, y), sentence in zip(found.plane.points.tolist(), found.sentences, strict=True):
        put_line(f"{x:.4f}", f"{y:.4f}", sentence)


def said_once() -> list[str]:
    """The lines of stdin, each once; how many were left out, and why."""
    lines = list(input_lines("-"))
    full = [line for line in lines if line.strip()]
    sentences = list(dict.fromkeys(full))
    reasons = {"empty": len(lines) - len(full), "said before": len(full) - len(sentences)}
    if told := ", ".join(f"{count} x {reason}" for reason, count in reasons.items() if count):
        say(f"stdin: left out {len(lines) - len(sentences)} of {len(lines)} lines ({told})")
    return sentences


def of_file(generator: Generator, file: str) -> list[str]:
    """The sentences of a file; which lines were left out, and why."""
    from antiphon import api

    sentences, dropped = api.read_sentences(generator, file)
    say_dropped(dropped.facts())
    return sentences


def say_flags(flags: list[str]) -> None:
    """The first of them, a line a sentence, and how many more there are."""
    for flag in flags[:LISTED]:
        say(flag)
    if len(flags) > LISTED:
        more = len(flags) - LISTED
        say("1 more sentence is flagged" if more == 1 else f"{more} more sentences are flagged")
