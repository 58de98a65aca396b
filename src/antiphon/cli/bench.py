"""antiphon bench"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from antiphon.cli.io import print_json, print_table, say
from antiphon.cli.options import load_generator, with_search_flags
from antiphon.inference.options import SearchKeywords

if TYPE_CHECKING:
    from antiphon.evaluation.bench import Speed
    from antiphon.inference.generator import Generator

__all__ = ["bench"]

MAX_LINES = 1000
COLUMNS = ("model", "engine", "sentences/s", "words/s", "one by one", "p50 ms", "p95 ms", "MB")


@with_search_flags
def bench(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Runs, model folders and exports.")],
    file: Annotated[
        str | None,
        typer.Option(help="Lines to answer, 1,000 at most. Default: the sources of the first model's dev file."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the figures are medians over them.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per model.")] = False,
    **options: Unpack[SearchKeywords],
) -> None:
    """Compare how fast models answer on this machine.

    Batches and single inputs are timed, the models in turn, and the medians over the rounds are reported.
    """
    from antiphon.evaluation.bench import compare

    first, *others = dict.fromkeys(models)
    texts = benchmark_inputs(file, load_generator(first, None, None, options, []))
    for path in others:  # only to check them: each model is measured in a process of its own
        load_generator(path, None, None, options, [])
    say(f"{len(texts)} texts; for reliable figures, run nothing else on this machine")
    speeds = compare([str(path) for path in (first, *others)], texts, rounds=rounds, log=say, **options)
    if as_json:
        for speed in speeds:
            print_json(asdict(speed))
        return
    print_speeds(speeds)
    for sentence in fastest(speeds):
        say(sentence)


def benchmark_inputs(file: str | None, generator: Generator) -> list[str]:
    """The lines of a file, or else the sources of the model's development set."""
    from antiphon import api
    from antiphon.cli.io import input_lines
    from antiphon.errors import UserError

    if file is not None:
        return [line for line in input_lines(file) if line.strip()][:MAX_LINES]
    data = generator.config.data
    if data.dev is None or data.source is None:
        raise UserError("data.dev: the config of the model names no file of pairs; give --file with lines to answer")
    examples, _ = api.read_examples(generator, data.dev)
    return [example.source for example in examples][:MAX_LINES]


def print_speeds(speeds: list[Speed]) -> None:
    """Print a table with one line a model."""
    rows = [
        (
            speed.name, speed.engine, f"{speed.sentences:.1f}", f"{speed.words:.0f}", f"{speed.single:.1f}",
            f"{speed.p50:.1f}", f"{speed.p95:.1f}", f"{speed.memory:.0f}",
        )
        for speed in speeds
    ]  # fmt: skip
    print_table(COLUMNS, rows, left=2)


def fastest(speeds: list[Speed]) -> list[str]:
    """The fastest model, in batches and one by one."""
    if len(speeds) < 2:
        return []
    batch, single = max(speeds, key=lambda speed: speed.sentences), max(speeds, key=lambda speed: speed.single)
    if batch is single:
        return [f"{batch.name} is the fastest, in batches and one by one"]
    return [f"in batches {batch.name} is the fastest, one by one {single.name}"]
