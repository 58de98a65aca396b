"""antiphon generate"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from antiphon.cli.io import Flags, in_batches, input_lines, put_json, put_line, put_text
from antiphon.cli.options import Combine, Run, With, load_together, with_search_flags
from antiphon.inference.options import OURS, SearchKeywords

if TYPE_CHECKING:
    from antiphon.inference.generation import Generation
    from antiphon.inference.generator import Generator

__all__ = ["generate"]

AHEAD = 16  # batches read at once, so that lines of like length can be answered together


@with_search_flags
def generate(
    run: Run,
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="Lines to answer, or paths, relative to FILE; stdin when missing or -."),
    ] = None,
    prefix: Annotated[str, typer.Option(help="A text that every answer begins with.")] = "",
    also: With = None,
    combine: Combine = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    weights: Annotated[bool, typer.Option("--weights", help="With --json: the attention weights, and copies.")] = False,
    **options: Unpack[SearchKeywords],
) -> None:
    """A line in, a line out, in the same order.

    A model of pictures, sounds or arrays is given paths; several sources have a tab between them.

    A language model goes on where each line ends. One that learnt a stream writes several lines, with an empty line
    between two answers; --json keeps each answer on one line.
    """
    problems = ["--weights: only JSON can hold them; add --json"] if weights and not as_json else []
    generator = load_together(run, also, combine, options, problems)
    if weights:
        check_weights(generator)
    keyboard = file in (None, "-") and sys.stdin.isatty()
    size = 1 if keyboard else options.get("batch_size") or generator.config.decoding.batch_size
    options |= {"batch_size": size, "log_probs": as_json}
    stream, seen, n_best = generator.config.data.window is not None, Flags(), options.get("n_best") or 1
    for batch in in_batches(source_lines(generator, file), size if size == 1 else AHEAD * size):
        for answer in answers_of(generator, batch, file, prefix=prefix, first=seen.lines, weights=as_json, **options):
            seen.add(answer.flags, listed=not as_json)
            put_answer(answer, seen.lines, n_best, as_json, weights=weights, stream=stream)
        sys.stdout.flush()
    seen.close()


def source_lines(generator: Generator, file: str | None) -> Iterator[str]:
    """The lines of a file or of stdin; paths in them begin where the file lies, or where the user is."""
    from antiphon.data.pairs import SourcePaths

    paths = SourcePaths.of_lines(generator.config.data, None if file == "-" else file)
    return (paths.resolve_line(line) for line in input_lines(file))


def answers_of(
    generator: Generator, batch: list[str], file: str | None, *, prefix: str, first: int, weights: bool,
    **options: Unpack[SearchKeywords],
) -> list[Generation]:  # fmt: skip
    """Answers to some lines; what cannot be read is said of the lines of the file."""
    from antiphon.inference.inputs import UnreadableInputError

    try:
        return generator.generate(batch, prefix=prefix, first=first, weights=weights, **options)
    except UnreadableInputError as error:
        raise error.of("stdin" if file in (None, "-") else str(file)) from None


def check_weights(generator: Generator) -> None:
    """UserError where there are no weights to put out: the engine hands out none, or the model has none."""
    from antiphon.errors import UserError

    if not generator.engine.has_attention:
        ours = generator.engine.name in OURS
        why = "this model does not attend to a source" if ours else f"{generator.engine.name} hands out no attention"
        raise UserError(f"--weights: {why}; {'leave --weights out' if ours else 'use the run of the export'}")


def put_answer(answer: Generation, number: int, n_best: int, as_json: bool, *, weights: bool, stream: bool) -> None:
    """One answer as text, as a list of the n best, or as JSON; the text of a stream has lines."""
    if as_json:
        put_json(as_dict(answer, weights=weights))
    elif n_best == 1 and stream:
        put_text(answer.text, first=number == 1)
    elif n_best == 1:
        put_line(answer.text)
    else:
        for alternative in answer.alternatives[:n_best]:
            put_line(str(number), f"{alternative.score:.4f}", alternative.text)
        if not answer.alternatives:  # an empty line has one answer, the empty one
            put_line(str(number), f"{answer.score:.4f}", answer.text)


def as_dict(answer: Generation, *, weights: bool) -> dict[str, Any]:
    """What `--json` shows of an answer; a flag may come of the weights, even where they are not shown."""
    found: dict[str, Any] = {
        "text": answer.text,
        "tokens": answer.tokens,
        "score": answer.score,
        "log_probs": answer.log_probs,
        "flags": answer.flags,
        "alternatives": [
            {"text": other.text, "tokens": other.tokens, "score": other.score, "log_probs": other.log_probs}
            for other in answer.alternatives
        ],
    }
    if weights and answer.weights is not None:
        found |= {"source_tokens": answer.source_tokens, "weights": answer.weights.tolist()}
    if weights and answer.copied is not None:
        found |= {"copied": answer.copied}
    return found
