"""antiphon map"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from antiphon.cli.io import input_lines, print_line, say, say_dropped

if TYPE_CHECKING:
    from antiphon.inference.generator import Generator
    from antiphon.plots.sentence_map import Pool

__all__ = ["map_"]

MAX_LISTED = 20  # flags; the rest are counted


class Pooling(StrEnum):
    """Ways to pool the states of a sentence into one vector."""

    last = "last"
    mean = "mean"
    max = "max"


def map_(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Sentences: lines, or the source columns of a .tsv, .csv, .json, ...; - for stdin."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="A .png or .svg file. Default: X, Y, SENTENCE to stdout.")] = None,
    pool: Annotated[
        Pooling | None,
        typer.Option(
            help="Pool the states of a sentence into one vector: the last state, their mean or their maximum. "
            "Default: last for recurrent networks and language models, mean for other encoders."
        ),
    ] = None,
) -> None:
    """Draw sentences as points: similar ones lie close together.

    The pooled encoder states are projected onto their first two principal components (PCA). A picture has only the
    labels that do not overlap.
    """
    from antiphon import api
    from antiphon.errors import DataError, UserError
    from antiphon.plots.sentence_map import draw_map, too_few_sentences
    from antiphon.plots.style import folder_problems, suffix_problems

    if out is not None and (problems := suffix_problems(out) or folder_problems(out)):
        raise UserError(problems)
    generator = api.load(run)
    sentences = stdin_sentences() if file == "-" else file_sentences(generator, file)
    if problems := too_few_sentences("stdin" if file == "-" else file, len(sentences)):
        raise DataError(problems)
    sentence_map = api.map_sentences(generator, sentences, pool=cast("Pool | None", pool and pool.value))
    say_flags(sentence_map.flags)
    say(f"{sentence_map.made_of}; {sentence_map.spread}")
    if out is not None:
        name = "" if file == "-" else f" of {Path(file).name}"
        draw_map(sentence_map, out, title=f"{len(sentence_map.sentences):,} sentences{name}")
        say(f"wrote {out}")
        return
    for (x, y), sentence in zip(sentence_map.plane.points.tolist(), sentence_map.sentences, strict=True):
        print_line(f"{x:.4f}", f"{y:.4f}", sentence)


def stdin_sentences() -> list[str]:
    """The lines of stdin without empty ones and duplicates, whose numbers are logged."""
    lines = list(input_lines("-"))
    filled = [line for line in lines if line.strip()]
    sentences = list(dict.fromkeys(filled))
    reasons = {"empty": len(lines) - len(filled), "duplicate": len(filled) - len(sentences)}
    if counts := ", ".join(f"{count} x {reason}" for reason, count in reasons.items() if count):
        say(f"stdin: left out {len(lines) - len(sentences)} of {len(lines)} lines ({counts})")
    return sentences


def file_sentences(generator: Generator, file: str) -> list[str]:
    """The sentences of a file; lines that were left out are logged."""
    from antiphon import api

    sentences, dropped = api.read_sentences(generator, file)
    say_dropped(dropped.facts())
    return sentences


def say_flags(flags: list[str]) -> None:
    """Log the first flags, and the number of further ones."""
    for flag in flags[:MAX_LISTED]:
        say(flag)
    if len(flags) > MAX_LISTED:
        more = len(flags) - MAX_LISTED
        say("1 more sentence is flagged" if more == 1 else f"{more} more sentences are flagged")
