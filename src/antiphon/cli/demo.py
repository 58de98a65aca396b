"""antiphon demo"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(metavar="RUN", help="The run folder.")] = Path("runs/demo"),
) -> None:
    """Learn pronunciation in about a minute, and see it work."""
    from antiphon.training.demo import run_demo

    run_demo(out)
