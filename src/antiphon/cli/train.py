"""antiphon train"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.io import print_line, program, say

__all__ = ["train"]

NOTHING_LEARNT = 3  # exit code


def train(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A YAML file or the name of a recipe.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="a.b=c", help="Keys to change.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="The run folder; default: runs/NAME.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start again instead of resuming.")] = False,
) -> None:
    """Train a model; the same command resumes it if interrupted.

    With more updates (training.epochs=40) the same command goes on with a finished run.

    Exit code 3: trained, but learnt nothing beyond the frequency of the output tokens.
    """
    from antiphon import api
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
