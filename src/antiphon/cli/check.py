"""antiphon check"""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from antiphon.cli.io import print_note, program, say

__all__ = ["check"]


def check(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A YAML file or the name of a recipe.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="a.b=c", help="Keys to change.")] = None,
) -> None:
    """Check a configuration and its data, without training."""
    from antiphon import api
    from antiphon.cli.io import say_dropped_lines
    from antiphon.errors import UserError

    report = api.check(config, overrides or [], say=say)
    for fact in [*report.facts, *report.measured]:
        print_note(fact)
    say_dropped_lines(report.dropped)
    for warning in report.warnings:
        say(f"warning: {warning}")
    if report.problems:
        raise UserError(report.problems)
    command = shlex.join(["train", config, *(overrides or [])])
    say(f"{config}: no problems; next: {program()} {command} --out RUN")
