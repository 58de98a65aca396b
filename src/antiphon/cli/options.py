"""One run, or several that answer as one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from antiphon.inference.generator import Generator

__all__ = [
    "BatchSize",
    "Beam",
    "Combine",
    "Coverage",
    "Diversity",
    "Forbid",
    "Groups",
    "Joint",
    "LengthPenalty",
    "MaxLength",
    "MaxRatio",
    "Mean",
    "MinLength",
    "MinRatio",
    "MinimumRisk",
    "NBest",
    "NoRepeat",
    "Patience",
    "Prefix",
    "ReplaceUnknown",
    "Require",
    "Sample",
    "Samples",
    "Seed",
    "Shortlist",
    "Temperature",
    "TopK",
    "TopP",
    "Utility",
    "With",
    "idle_combine",
    "load_together",
]

# The options of a search on the command line, shared by the commands that search.


class Utility(StrEnum):
    """How alike two answers are."""

    chrf = "chrf"
    bleu = "bleu"


class Mean(StrEnum):
    """Of the probabilities of several models."""

    arithmetic = "arithmetic"
    geometric = "geometric"


Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Hypotheses kept at each step; 1: greedy. Default: the model's decoding.beam."),
]
NBest = Annotated[int, typer.Option(min=1, help="Answers a line; more than 1: LINE, SCORE, TEXT each.")]
MaxLength = Annotated[
    int | None,
    typer.Option(min=1, help="Longest answer in tokens, </s> counts. Default: the model's decoding.max_length."),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(min=0.0, help="Exponent a of sum(log p) / length^a. Default: the model's decoding.length_penalty."),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Lines answered together; 1: each line as soon as it comes. Default: the model's decoding.batch_size.",
    ),
]
Prefix = Annotated[str, typer.Option(help="What every answer has to begin with.")]
MinLength = Annotated[int | None, typer.Option(min=1, help="Shortest answer in tokens, </s> counts. Default: 1.")]
MaxRatio = Annotated[float | None, typer.Option(help="Longest answer as a multiple of its source, both with </s>.")]
MinRatio = Annotated[float | None, typer.Option(help="Shortest answer as a multiple of its source.")]
Patience = Annotated[
    float | None,
    typer.Option(help="The beam stays full until BEAM x PATIENCE answers have ended. Default: it shrinks."),
]
Diversity = Annotated[
    float | None,
    typer.Option(help="The beam in groups; what a token costs that another group has taken at the same step."),
]
Groups = Annotated[int | None, typer.Option(min=2, help="With --diversity: groups of the beam. Default: 2.")]
NoRepeat = Annotated[int | None, typer.Option(min=1, help="No so many tokens twice in the same order.")]
Forbid = Annotated[
    list[str] | None, typer.Option(help="A phrase that no answer may contain; may be given several times.")
]
Require = Annotated[
    list[str] | None, typer.Option(help="A phrase that every answer has to contain; may be given several times.")
]
Coverage = Annotated[
    float | None,
    typer.Option(help="How much it counts, among the answers of a beam, that all of the source was attended to."),
]
Joint = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="How much the run's joint n-grams count among the answers of a beam; 0: nothing. "
        "Default: the model's decoding.joint.",
    ),
]
ReplaceUnknown = Annotated[
    bool | None,
    typer.Option(
        "--replace-unknown/--no-replace-unknown",
        help="<unk> may be said; the source token attended to most is written in its place. Default: as the run says.",
        show_default=False,
    ),
]
Sample = Annotated[bool, typer.Option("--sample", help="Draw the tokens instead of searching the best.")]
Temperature = Annotated[
    float | None, typer.Option(help="With --sample: below 1 likelier tokens, above 1 stranger ones. Default: 1.")
]
TopK = Annotated[int | None, typer.Option(min=1, help="With --sample: only of the likeliest so many.")]
TopP = Annotated[
    float | None, typer.Option(help="With --sample: only of the fewest tokens that make this probability.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="With --sample: another seed, other answers. Default: 1.")]
MinimumRisk = Annotated[
    Utility | None,
    typer.Option(help="With --sample: of SAMPLES draws the one that is most like the others, by chrF or BLEU."),
]
Samples = Annotated[int | None, typer.Option(min=2, help="With --mbr: how many are drawn. Default: 16.")]
With = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="RUN", help="Answer together with this run, too: an ensemble."),
]
Combine = Annotated[
    Mean | None, typer.Option(help="With --with: which mean of the probabilities decides. Default: arithmetic.")
]
Shortlist = Annotated[
    bool,
    typer.Option(
        "--shortlist",
        help="Only for an export to CTranslate2: say only what the source can give, as `antiphon shortlist` learnt.",
    ),
]


def idle_combine(also: list[Path] | None, combine: Mean | None) -> list[str]:
    """The problem of a mean with nothing to mix."""
    if combine is None or also:
        return []
    return ["--combine: only for several runs; add --with RUN, or leave it out"]


def load_together(run: Path, also: list[Path] | None, combine: Mean | None) -> Generator:
    """RUN, with those of --with if there are any."""
    from antiphon import api

    if not also:
        return api.load(run)
    return api.load([run, *also], combine=(combine or Mean.arithmetic).value)
