"""antiphon demo"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.io import program

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(metavar="RUN", help="The run folder.")] = Path("runs/demo"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Start again instead of resuming.")] = False,
) -> None:
    """Train a small pronunciation model in a minute, and use it."""
    from rich.console import Console

    from antiphon.training.demo import run_demo
    from antiphon.training.display import open_display

    run_demo(out, open_display(), Console(highlight=False), program=program(), fresh=fresh)
