"""antiphon demo"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.io import program

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(metavar="RUN", help="The run folder.")] = Path("runs/demo"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin again instead of going on where it stood.")] = False,
) -> None:
    """Learn pronunciation in about a minute, and see it work."""
    from rich.console import Console

    from antiphon.training.demo import run_demo
    from antiphon.training.display import open_display

    run_demo(out, open_display(), Console(highlight=False), program=program(), fresh=fresh)
