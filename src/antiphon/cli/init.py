"""antiphon init"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.io import pair_files, program, say
from antiphon.text import visible

__all__ = ["init"]


def init(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA", help="A file of pairs, or a source and a target file; for a language model plain text."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The configuration to write; - for stdout.")] = Path("config.yaml"),
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to read, by name or number from 0; repeatable: several sources."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="The column to learn; repeatable: several references."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Inspect the data and write a configuration for it.

    The configuration is complete, every key is explained, and the reason for each choice is printed. Columns of a table
    that are not used are named; --source and --target choose others.
    """
    from antiphon.autoconfig.suggest import suggest_config
    from antiphon.config.yaml_text import explained_yaml
    from antiphon.errors import UserError
    from antiphon.files import write_text

    pair_files(data)
    if str(out) != "-" and out.exists() and not force:
        raise UserError(f"{out}: already exists; give another name with --out, or --force to overwrite it")
    suggestion = suggest_config(data, source or [], target or [], say)
    for reason in suggestion.reasons:
        say(reason)
    for warning in suggestion.warnings:
        say(f"warning: {warning}")
    chosen = [f"--{flag}={name}" for flag, names in (("source", source), ("target", target)) for name in names or []]
    command = visible(shlex.join([*data, *chosen]), keep=" ")
    text = f"# Written by: antiphon init {command}\n\n{explained_yaml(suggestion.config)}"
    if str(out) == "-":
        print(text, end="")
        return
    write_text(out, text)
    name = shlex.quote(str(out))
    say(f"wrote {out}; next: {program()} check {name}, then: {program()} train {name} --out RUN")
