"""antiphon evaluate"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.files import METRICS, known_metrics, pair_files, say_dropped
from antiphon.cli.output import put_json, put_line, say

if TYPE_CHECKING:
    from antiphon.evaluation.evaluate import Evaluation

__all__ = ["evaluate"]

FINE = ("loss", "bits_per_character")  # small numbers, of which the third digit matters


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder.")],
    pairs: Annotated[
        list[str],
        typer.Argument(
            metavar="PAIRS", help="A file of pairs, or a source and a target file; for a language model a text file."
        ),
    ],
    beam: Annotated[
        int | None,
        typer.Option(min=1, help="Hypotheses kept at each step; 1: greedy. Default: the model's decoding.beam."),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Sentences decoded together. Default: the model's decoding.batch_size.")
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help=f"One of {', '.join(METRICS)}; may stand several times. Default: the model's evaluation.metrics.",
        ),
    ] = None,
    shortlist: Annotated[
        bool, typer.Option("--shortlist", help="As in generate: only what the source can give.")
    ] = False,
    int8: Annotated[
        bool,
        typer.Option("--int8", help="Compute dense layers with 8 bits: often faster (see bench), a little less exact."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Metrics on pairs or texts, with 95 % bootstrap intervals."""
    from antiphon import api
    from antiphon.sources.amounts import amount

    files, wanted = pair_files(pairs), known_metrics(metrics)
    generator = api.load(run, int8=int8)
    result = api.evaluate(generator, files, beam=beam, batch_size=batch_size, metrics=wanted, shortlist=shortlist)
    say_dropped(result.dropped)
    if result.flagged and generator.config.data.source is None:
        texts = amount(result.flagged, "texts")
        say(f"{texts} with symbols the model does not know (<unk>); `antiphon score` names them")
    elif result.flagged:
        say(f"{amount(result.flagged, 'answers')} flagged; `antiphon generate --json` shows why")
    if as_json:
        put_object(result)
    else:
        put_table(result)


def put_table(result: Evaluation) -> None:
    """Name, value and interval of each metric."""
    from antiphon.sources.amounts import amount

    width = max(len(name) for name in result.values)
    digits = {name: 3 if name in FINE else 2 for name in result.values}
    values = {name: f"{estimate.value:.{digits[name]}f}" for name, estimate in result.values.items()}
    widest = max(8, *(len(value) for value in values.values()))
    for name, estimate in result.values.items():
        interval = f"[{estimate.low:.{digits[name]}f}, {estimate.high:.{digits[name]}f}]"
        put_line(f"{name:<{width}}  {values[name]:>{widest}}  {interval}")
    for name, signature in result.signatures.items():
        say(f"{name}: {signature}")
    counted = amount(result.examples, result.unit)
    say(f"{counted} in {result.seconds:.1f} s; in brackets: 95 % of 1,000 bootstrap samples")


def put_object(result: Evaluation) -> None:
    """The same as one object."""
    found: dict[str, Any] = {
        "metrics": {
            name: {"value": estimate.value, "low": estimate.low, "high": estimate.high}
            for name, estimate in result.values.items()
        },
        "signatures": result.signatures,
        "examples": result.examples,
        "unit": result.unit,
        "seconds": result.seconds,
        "flagged": result.flagged,
        "dropped": result.dropped,
    }
    put_json(found)
