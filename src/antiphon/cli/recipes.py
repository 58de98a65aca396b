"""antiphon recipes"""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.io import print_note, program, say

__all__ = ["recipes"]


class Action(StrEnum):
    """Actions on recipes."""

    ls = "ls"
    cat = "cat"
    cp = "cp"


def recipes(
    action: Annotated[
        Action, typer.Argument(metavar="ls|cat|cp", help="List them, print one, or copy one.")
    ] = Action.ls,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The recipe, for cat and cp.")] = None,
    to: Annotated[Path | None, typer.Argument(metavar="TO", help="The copy. Default: NAME.yaml.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the copy.")] = False,
) -> None:
    """List, print or copy the configurations that come with Antiphon."""
    from antiphon.config.load import recipe_names, recipe_text
    from antiphon.errors import UserError
    from antiphon.files import write_text

    if action is Action.ls:
        for recipe in recipe_names():
            print_note(recipe, recipe_text(recipe).split("\n", 1)[0].lstrip("# "))
        return
    if name is None:
        raise UserError(f"recipes {action.value}: NAME is missing; the recipes are {', '.join(recipe_names())}")
    text = recipe_text(name)
    if action is Action.cat:
        print(text, end="")
        return
    to = to or Path(f"{name}.yaml")
    to = to / f"{name}.yaml" if to.is_dir() else to
    if to.exists() and not force:
        raise UserError(f"{to}: already exists; give another name, or --force to overwrite it")
    write_text(to, text)
    say(f"wrote {to}; next: {program()} train {shlex.quote(str(to))} --out RUN")
