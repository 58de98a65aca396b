"""antiphon generate"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from antiphon.cli.flags import Flags
from antiphon.cli.lines import in_batches, input_lines
from antiphon.cli.output import put_json, put_line, put_text

if TYPE_CHECKING:
    from antiphon.config.schema import Config
    from antiphon.decoding.generation import Generation

__all__ = ["generate"]

SAMPLES = 16  # that --mbr chooses from
AHEAD = 16  # batches read at once, so that lines of like length can be answered together


class Utility(StrEnum):
    """How alike two answers are."""

    chrf = "chrf"
    bleu = "bleu"


class Mean(StrEnum):
    """Of the probabilities of several models."""

    arithmetic = "arithmetic"
    geometric = "geometric"


def generate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder.")],
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="Lines to answer; stdin when missing or -.")
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(min=1, help="Hypotheses kept at each step; 1: greedy. Default: the model's decoding.beam."),
    ] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Answers a line; more than 1: LINE, SCORE, TEXT each.")] = 1,
    max_length: Annotated[
        int | None,
        typer.Option(min=1, help="Longest answer in tokens, </s> counts. Default: the model's decoding.max_length."),
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Exponent a of sum(log p) / length^a. Default: the model's decoding.length_penalty."
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Lines answered together; 1: each line as soon as it comes. Default: the model's decoding.batch_size.",
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(help="What every answer has to begin with.")] = "",
    min_length: Annotated[
        int | None, typer.Option(min=1, help="Shortest answer in tokens, </s> counts. Default: 1.")
    ] = None,
    max_ratio: Annotated[
        float | None, typer.Option(help="Longest answer as a multiple of its source, both with </s>.")
    ] = None,
    min_ratio: Annotated[float | None, typer.Option(help="Shortest answer as a multiple of its source.")] = None,
    patience: Annotated[
        float | None,
        typer.Option(help="The beam stays full until BEAM x PATIENCE answers have ended. Default: it shrinks."),
    ] = None,
    diversity: Annotated[
        float | None,
        typer.Option(help="The beam in groups; what a token costs that another group has taken at the same step."),
    ] = None,
    groups: Annotated[int | None, typer.Option(min=2, help="With --diversity: groups of the beam. Default: 2.")] = None,
    no_repeat: Annotated[int | None, typer.Option(min=1, help="No so many tokens twice in the same order.")] = None,
    forbid: Annotated[
        list[str] | None, typer.Option(help="A phrase that no answer may contain; may be given several times.")
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option(help="A phrase that every answer has to contain; may be given several times.")
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="How much it counts, among the answers of a beam, that all of the source was attended to."),
    ] = None,
    replace_unknown: Annotated[
        bool,
        typer.Option(
            "--replace-unknown", help="<unk> may be said; the source token attended to most is written in its place."
        ),
    ] = False,
    sample: Annotated[bool, typer.Option("--sample", help="Draw the tokens instead of searching the best.")] = False,
    temperature: Annotated[
        float | None, typer.Option(help="With --sample: below 1 likelier tokens, above 1 stranger ones. Default: 1.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="With --sample: only of the likeliest so many.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="With --sample: only of the fewest tokens that make this probability.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="With --sample: another seed, other answers. Default: 1.")
    ] = None,
    mbr: Annotated[
        Utility | None,
        typer.Option(help="With --sample: of SAMPLES draws the one that is most like the others, by chrF or BLEU."),
    ] = None,
    samples: Annotated[int | None, typer.Option(min=2, help="With --mbr: how many are drawn. Default: 16.")] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="RUN", help="Answer together with this run, too: an ensemble."),
    ] = None,
    combine: Annotated[
        Mean, typer.Option(help="With --with: which mean of the probabilities decides.")
    ] = Mean.arithmetic,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    weights: Annotated[bool, typer.Option("--weights", help="With --json: the attention weights as well.")] = False,
) -> None:
    """A line in, a line out, in the same order.

    A language model goes on where each line ends. One that learnt a stream writes several lines, with an empty line
    between two answers; --json keeps each answer on one line.
    """
    from antiphon import api
    from antiphon.errors import UserError

    drawing = {"--temperature": temperature, "--top-k": top_k, "--top-p": top_p, "--seed": seed, "--mbr": mbr}
    if problems := contradictions(beam, n_best, sample, [name for name, value in drawing.items() if value is not None]):
        raise UserError(problems)
    if weights and not as_json:
        raise UserError("--weights: only JSON can hold them; add --json")
    if samples is not None and mbr is None:
        raise UserError("--samples: how many --mbr chooses from; add --mbr, or give --n-best")
    generator = (
        api.load([run, *also], combine=cast("Literal['arithmetic', 'geometric']", combine.value))
        if also
        else api.load(run)
    )
    if weights and not looks_at_source(generator.config):
        raise UserError("--weights: this model does not look at a source while it writes; leave --weights out")
    size = 1 if file in (None, "-") and sys.stdin.isatty() else batch_size or generator.config.decoding.batch_size
    utility = cast("Literal['chrf', 'bleu'] | None", mbr and mbr.value)
    stream, seen = generator.config.data.window is not None, Flags()
    for batch in in_batches(input_lines(file), size if size == 1 else AHEAD * size):
        for answer in generator.generate(
            batch, beam=beam, n_best=max(n_best, samples or SAMPLES) if mbr else n_best, max_length=max_length,
            min_length=min_length, max_ratio=max_ratio, min_ratio=min_ratio, length_penalty=length_penalty,
            patience=patience, diversity=diversity, groups=groups, no_repeat=no_repeat, forbid=forbid, require=require,
            coverage=coverage, replace_unknown=replace_unknown, batch_size=size, prefix=prefix, sample=sample,
            temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, mbr=utility, first=seen.lines,
            weights=weights,
        ):  # fmt: skip
            seen.add(answer.flags, listed=not as_json)
            put_answer(answer, seen.lines, n_best, as_json, stream=stream)
        sys.stdout.flush()
    seen.close()


def looks_at_source(config: Config) -> bool:
    """Whether there are weights to put out: not of a static context, nor of a network that has no encoder."""
    return config.model.kind == "encoder-decoder" and config.model.decoder.kind != "plain"


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


def put_answer(answer: Generation, number: int, n_best: int, as_json: bool, *, stream: bool) -> None:
    """One answer as text, as a list of the n best, or as JSON; the text of a stream has lines."""
    if as_json:
        put_json(as_dict(answer))
    elif n_best == 1 and stream:
        put_text(answer.text, first=number == 1)
    elif n_best == 1:
        put_line(answer.text)
    else:
        for alternative in answer.alternatives[:n_best]:
            put_line(str(number), f"{alternative.score:.4f}", alternative.text)
        if not answer.alternatives:  # an empty line has one answer, the empty one
            put_line(str(number), f"{answer.score:.4f}", answer.text)


def as_dict(answer: Generation) -> dict[str, Any]:
    """What `--json` shows of an answer."""
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
    if answer.weights is not None:
        found |= {"source_tokens": answer.source_tokens, "weights": answer.weights.tolist()}
    return found
