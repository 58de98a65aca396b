"""antiphon joint"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.output import program, say

__all__ = ["joint"]


def joint(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder whose training pairs are there.")],
) -> None:
    """Count pieces of both texts, to choose better answers.

    For texts that go on together from left to right: spelling and sound, two scripts, old and new spelling. They help
    to choose among the answers of a beam: `generate --joint 1`. A run that learnt with decoding.joint has them already.
    """
    from antiphon import api

    api.joint(run, say=say)
    name = shlex.quote(str(run))
    say(f"next: {program()} evaluate {name} PAIRS --joint 1, and with --joint 0 to compare")
