"""antiphon bench"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from antiphon.cli.io import put_json, put_line, say
from antiphon.cli.options import load_together, with_search_flags
from antiphon.inference.options import SearchKeywords

if TYPE_CHECKING:
    from antiphon.evaluation.bench import Speed
    from antiphon.inference.generator import Generator

__all__ = ["bench"]

MOST = 1000  # lines that are answered
COLUMNS = ("model", "engine", "sentences/s", "words/s", "one by one", "p50 ms", "p95 ms", "MB")


@with_search_flags
def bench(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Runs, model folders and exports.")],
    file: Annotated[
        str | None,
        typer.Option(help="Lines to answer, 1,000 at most. Default: the sources of the first model's dev file."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, over which medians are taken.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a model.")] = False,
    **options: Unpack[SearchKeywords],
) -> None:
    """Compare how fast models answer on this machine.

    In batches and one by one; in turn, round after round, and the medians count.
    """
    from antiphon.evaluation.bench import compare

    first, *others = dict.fromkeys(models)
    texts = lines(file, load_together(first, None, None, options, []))
    for path in others:  # each is measured in a process of its own
        load_together(path, None, None, options, [])
    say(f"{len(texts)} texts; nothing else should run on this machine")
    found = compare([str(path) for path in (first, *others)], texts, rounds=rounds, log=say, **options)
    if as_json:
        for speed in found:
            put_json(asdict(speed))
        return
    put_table(found)
    for sentence in advice(found):
        say(sentence)


def lines(file: str | None, generator: Generator) -> list[str]:
    """What to answer: lines of a file, or the sources that the model was measured on."""
    from antiphon import api
    from antiphon.cli.io import input_lines
    from antiphon.errors import UserError

    if file is not None:
        return [line for line in input_lines(file) if line.strip()][:MOST]
    data = generator.config.data
    if data.dev is None or data.source is None:
        raise UserError("the model's config names no dev file with sources; give --file with lines to answer")
    examples, _ = api.read_examples(generator, data.dev)
    return [example.source for example in examples][:MOST]


def put_table(found: list[Speed]) -> None:
    """One line a model."""
    rows = [COLUMNS, *(
        (one.name, one.engine, f"{one.sentences:.1f}", f"{one.words:.0f}", f"{one.single:.1f}", f"{one.p50:.1f}",
         f"{one.p95:.1f}", f"{one.memory:.0f}") for one in found
    )]  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows:
        cells = [f"{cell:<{width}}" if column < 2 else f"{cell:>{width}}" for column, (cell, width) in
                 enumerate(zip(row, widths, strict=True))]  # fmt: skip
        put_line("  ".join(cells).rstrip())


def advice(found: list[Speed]) -> list[str]:
    """Which to use."""
    if len(found) < 2:
        return []
    batch, single = max(found, key=lambda one: one.sentences), max(found, key=lambda one: one.single)
    if batch is single:
        return [f"{batch.name} is the fastest, in batches and one by one"]
    return [f"in batches {batch.name} is the fastest, one by one {single.name}"]
