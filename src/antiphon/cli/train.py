"""antiphon train"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli.io import print_line, print_sections, program, say
from antiphon.errors import UserError

if TYPE_CHECKING:
    from antiphon.training.check import CheckReport

__all__ = ["train"]

NOTHING_LEARNT = 3  # exit code


def train(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A YAML file or the name of a recipe.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="a.b=c", help="Keys to change.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="The run folder; default: runs/NAME.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start again instead of resuming.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Try a few batches and print size, time and memory; write no run.")
    ] = False,
) -> None:
    """Train a model; the same command resumes it if interrupted.

    With more updates (training.epochs=40) the same command goes on with a finished run.

    Exit code 3: trained, but learnt nothing beyond the frequency of the output tokens.
    """
    from antiphon import api

    if dry_run:
        if fresh:
            raise UserError("--dry-run: it writes no run, so --fresh has nothing to do; leave one of them out")
        print_dry_run(api.check(config, overrides or [], say=say))
        return
    from antiphon.model_folder import load_flag_limits
    from antiphon.reports.card import has_attention
    from antiphon.reports.run_record import read_record
    from antiphon.training.display import open_display

    run = api.train(config, out=out, overrides=overrides or [], fresh=fresh, display=open_display())
    print_line(str(run))
    name = shlex.quote(str(run))
    use = f"generate {name} FILE" if load_flag_limits(run).turns is None else f"chat {name}"
    look = f"explain {name} TEXT" if has_attention(run) else f"map {name} FILE"
    say(f"next: {program()} {use}, {program()} {look}, or open {run / 'report.html'}")
    if not read_record(run).learnt:
        raise typer.Exit(NOTHING_LEARNT)


def print_dry_run(report: CheckReport) -> None:
    """Print the sizes, the time and the memory of a training; UserError if it could not begin."""
    for warning in report.warnings:
        say(f"warning: {warning}")
    if report.problems or report.dry_run is None:
        raise UserError(report.problems)
    print_sections(report.dry_run.sections())
    say("nothing was written but the cache of the data; without --dry-run the training begins")
