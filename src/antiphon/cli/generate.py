"""antiphon generate"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack, cast

import typer

from antiphon.cli.io import Flags, in_batches, input_lines, put_json, put_line, put_text
from antiphon.cli.options import (
    BatchSize,
    Beam,
    Combine,
    Coverage,
    Diversity,
    Forbid,
    Groups,
    Joint,
    LengthPenalty,
    MaxLength,
    MaxRatio,
    MinimumRisk,
    MinLength,
    MinRatio,
    NBest,
    NoRepeat,
    Patience,
    Prefix,
    ReplaceUnknown,
    Require,
    Sample,
    Samples,
    Seed,
    Shortlist,
    Temperature,
    TopK,
    TopP,
    With,
    idle_combine,
    load_together,
)

if TYPE_CHECKING:
    from antiphon.inference.generation import Generation
    from antiphon.inference.generator import Generator
    from antiphon.inference.wishes import Wishes

__all__ = ["generate"]

SAMPLES = 16  # that --mbr chooses from
AHEAD = 16  # batches read at once, so that lines of like length can be answered together


def generate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder.")],
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="Lines to answer, or paths, relative to FILE; stdin when missing or -."),
    ] = None,
    beam: Beam = None,
    n_best: NBest = 1,
    max_length: MaxLength = None,
    length_penalty: LengthPenalty = None,
    batch_size: BatchSize = None,
    prefix: Prefix = "",
    min_length: MinLength = None,
    max_ratio: MaxRatio = None,
    min_ratio: MinRatio = None,
    patience: Patience = None,
    diversity: Diversity = None,
    groups: Groups = None,
    no_repeat: NoRepeat = None,
    forbid: Forbid = None,
    require: Require = None,
    coverage: Coverage = None,
    joint: Joint = None,
    replace_unknown: ReplaceUnknown = None,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    mbr: MinimumRisk = None,
    samples: Samples = None,
    also: With = None,
    combine: Combine = None,
    shortlist: Shortlist = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    weights: Annotated[bool, typer.Option("--weights", help="With --json: the attention weights, and copies.")] = False,
) -> None:
    """A line in, a line out, in the same order.

    A model of pictures, sounds or arrays is given paths; several sources have a tab between them.

    A language model goes on where each line ends. One that learnt a stream writes several lines, with an empty line
    between two answers; --json keeps each answer on one line.
    """
    from antiphon.errors import UserError

    drawing = {"--temperature": temperature, "--top-k": top_k, "--top-p": top_p, "--seed": seed, "--mbr": mbr}
    problems = contradictions(beam, n_best, sample, [name for name, value in drawing.items() if value is not None])
    if weights and not as_json:
        problems.append("--weights: only JSON can hold them; add --json")
    if samples is not None and mbr is None:
        problems.append("--samples: how many --mbr chooses from; add --mbr, or give --n-best")
    problems += idle_combine(also, combine)
    if problems:
        raise UserError(problems)
    generator = load_together(run, also, combine)
    if weights:
        check_weights(generator)
    size = 1 if file in (None, "-") and sys.stdin.isatty() else batch_size or generator.config.decoding.batch_size
    utility = cast("Literal['chrf', 'bleu'] | None", mbr and mbr.value)
    stream, seen = generator.config.data.window is not None, Flags()
    lines = source_lines(generator, file)
    for batch in in_batches(lines, size if size == 1 else AHEAD * size):
        for answer in answers_of(
            generator, batch, file, beam=beam, n_best=max(n_best, samples or SAMPLES) if mbr else n_best,
            max_length=max_length, min_length=min_length, max_ratio=max_ratio, min_ratio=min_ratio,
            length_penalty=length_penalty, patience=patience, diversity=diversity, groups=groups,
            no_repeat=no_repeat, forbid=forbid, require=require, coverage=coverage, joint=joint,
            replace_unknown=replace_unknown, shortlist=shortlist, batch_size=size, prefix=prefix, sample=sample,
            temperature=temperature, top_k=top_k,
            top_p=top_p, seed=seed, mbr=utility, log_probs=as_json, first=seen.lines, weights=as_json,
        ):  # fmt: skip
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
    **wishes: Unpack[Wishes],
) -> list[Generation]:  # fmt: skip
    """Answers to some lines; what cannot be read is said of the lines of the file."""
    from antiphon.inference.inputs import UnreadableInputError

    try:
        return generator.generate(batch, prefix=prefix, first=first, weights=weights, **wishes)
    except UnreadableInputError as error:
        raise error.of("stdin" if file in (None, "-") else str(file)) from None


def check_weights(generator: Generator) -> None:
    """UserError where there are no weights to put out: the engine hands out none, or the model has none."""
    from antiphon.errors import UserError
    from antiphon.inference.engine import TorchEngine

    if not isinstance(generator.engine, TorchEngine):
        raise UserError(
            f"--weights: {generator.engine.name} hands out no attention; use the run that the export was made from"
        )
    if not generator.engine.looks:
        raise UserError("--weights: this model does not look at a source while it writes; leave --weights out")


def contradictions(beam: int | None, n_best: int, sample: bool, drawing: list[str]) -> list[str]:
    """Options that speak against one another; `drawing` are those that are for sampling only."""
    if not sample:
        found = [f"{name}: only for sampling; add --sample, or leave it out" for name in drawing]
        if beam is not None and n_best > beam:
            found.append(f"--n-best: {n_best} answers need a beam of at least {n_best}, got --beam {beam}")
        return found
    if beam is not None:
        return [f"--beam: a beam of {beam} looks for the likeliest answer, --sample draws one; leave one of them out"]
    return []


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
