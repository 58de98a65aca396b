"""antiphon check"""

from __future__ import annotations

from typing import Annotated

import typer

from antiphon.cli.output import put_line, say

__all__ = ["check"]


def check(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A YAML file or the name of a recipe.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="a.b=c", help="Keys to change.")] = None,
) -> None:
    """Say all that is wrong, before any training."""
    from antiphon import api
    from antiphon.config.read import read_config, usable_part
    from antiphon.errors import ConfigError, UserError

    problems: list[str] = []
    try:
        usable = read_config(config, overrides or [])
    except ConfigError as error:
        problems = error.problems
        part = usable_part(config, overrides or [])
        if part is None:
            raise
        usable = part
    report = api.check(usable, say)
    for fact in report.facts if not problems else ():  # the model of a broken configuration is not the user's
        put_line(fact)
    for warning in report.warnings:
        say(f"warning: {warning}")
    if problems + report.problems:
        raise UserError(problems + report.problems)
    say(f"{config}: nothing wrong; next: antiphon train {' '.join([config, *(overrides or [])])} --out RUN")
