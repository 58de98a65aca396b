"""antiphon generate"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Unpack

import typer

from antiphon.cli.io import (
    FlagCounter,
    in_batches,
    input_lines,
    is_pipe,
    print_json,
    print_line,
    print_text,
    say_dropped,
)
from antiphon.cli.options import (
    CombineOption,
    PrecisionOption,
    RunArgument,
    WithOption,
    load_generator,
    with_search_flags,
)
from antiphon.inference.options import STEP_ENGINES, SearchKeywords

if TYPE_CHECKING:
    from antiphon.inference.generation import Generation
    from antiphon.inference.generator import Generator

__all__ = ["generate"]

READ_AHEAD = 16  # batches read at once, so that lines of similar length share a batch


@with_search_flags
def generate(
    run: RunArgument,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="Lines to answer, or paths, relative to FILE; or a table, whose source columns are answered. "
            "Default: stdin, as for -.",
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(help="A text that every answer begins with.")] = "",
    also: WithOption = None,
    combine: CombineOption = None,
    precision: PrecisionOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line; `source` is the line as it was.")
    ] = False,
    weights: Annotated[bool, typer.Option("--weights", help="With --json: the attention weights, and copies.")] = False,
    **options: Unpack[SearchKeywords],
) -> None:
    """Answer each line of a file or of stdin, in order.

    A line of a slow pipe is answered at once. A model of images, audio or arrays reads paths; several sources are
    separated by tabs.

    A language model continues each line. If it was trained on a stream, its answers have several lines, and an empty
    line separates them; --json keeps each answer on one line.
    """
    problems = ["--weights: only in JSON; add --json"] if weights and not as_json else []
    generator = load_generator(run, also, combine, options, problems, precision)
    if weights:
        check_weights(generator)
    size = options.get("batch_size") or generator.config.decoding.batch_size
    options |= {"batch_size": size, "log_probs": as_json}
    stream, counter, n_best = generator.config.data.window is not None, FlagCounter(), options.get("n_best") or 1
    seen: Counter[int] = Counter()
    inputs = source_lines(generator, file)
    for batch in in_batches(inputs.lines, size if size == 1 else READ_AHEAD * size, file):
        texts = [inputs.resolve(line) for line in batch]
        answers = answer_batch(
            generator, texts, file, prefix=prefix, first=counter.lines, seen=seen, weights=as_json, **options
        )
        for line, answer in zip(batch, answers, strict=True):
            counter.add(answer.flags, listed=not as_json)
            if as_json:
                print_json({"source": line, **answer.as_dict(weights=weights)})
            else:
                print_answer(answer, counter.lines, n_best, stream=stream)
        sys.stdout.flush()
    counter.close()


class InputLines(NamedTuple):
    """The lines to answer, and how the paths in one of them become paths that can be opened."""

    lines: Iterator[str]
    resolve: Callable[[str], str]


def source_lines(generator: Generator, file: str | None) -> InputLines:
    """The sources of a table, or the lines of a file or stdin, with paths relative to the file or working directory."""
    from antiphon.data.source import SourcePaths
    from antiphon.data.tables import has_columns, is_keyed

    path = None if file in (None, "-") else Path(str(file))
    # The columns of a pipe cannot be looked at before it is read.
    if path is not None and (is_keyed(path) if is_pipe(file) else has_columns(path, generator.config.data)):
        return InputLines(table_inputs(generator, str(file)), str)
    paths = SourcePaths.of_lines(generator.config.data, None if file == "-" else file)
    return InputLines(input_lines(file), paths.resolve_line)


def table_inputs(generator: Generator, file: str) -> Iterator[str]:
    """The sources of a table; rows that were left out are logged at the end."""
    from antiphon import api
    from antiphon.data.pairs import DropLog

    dropped = DropLog()
    yield from api.read_inputs(generator, file, dropped)
    say_dropped(dropped.facts())


def answer_batch(
    generator: Generator, texts: list[str], file: str | None, *, prefix: str, first: int, seen: Counter[int],
    weights: bool, **options: Unpack[SearchKeywords],
) -> list[Generation]:  # fmt: skip
    """Answers to a batch of lines; an error names the line of the file that cannot be read."""
    from antiphon.inference.inputs import UnreadableInputError

    try:
        return generator.generate(texts, prefix=prefix, first=first, seen=seen, weights=weights, **options)
    except UnreadableInputError as error:
        raise error.of("stdin" if file in (None, "-") else str(file)) from None


def check_weights(generator: Generator) -> None:
    """UserError if there are no attention weights: the engine returns none, or the model has none."""
    from antiphon.errors import UserError

    if not generator.engine.has_attention:
        ours = generator.engine.name in STEP_ENGINES
        why = "this model does not attend to a source" if ours else f"{generator.engine.name} returns no attention"
        raise UserError(f"--weights: {why}; {'leave --weights out' if ours else 'use the run of the export'}")


def print_answer(answer: Generation, number: int, n_best: int, *, stream: bool) -> None:
    """Print an answer as text or as an n-best list; an answer of a stream has several lines."""
    if n_best == 1 and stream:
        print_text(answer.text, first=number == 1)
    elif n_best == 1:
        print_line(answer.text)
    else:
        for alternative in answer.alternatives[:n_best]:
            print_line(str(number), f"{alternative.score:.4f}", alternative.text)
        if not answer.alternatives:  # the answer to an empty line is empty
            print_line(str(number), f"{answer.score:.4f}", answer.text)
