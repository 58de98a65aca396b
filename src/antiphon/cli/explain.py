"""antiphon explain"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli.output import put_line, say

if TYPE_CHECKING:
    from antiphon.decoding.generation import Generation

__all__ = ["explain"]


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to answer.")],
    out: Annotated[Path | None, typer.Option(help="A .png or .svg file; without it the terminal shows it.")] = None,
) -> None:
    """Show where the model looked while it wrote its answer."""
    from antiphon import api
    from antiphon.errors import UserError

    if out is not None and out.suffix.lower() not in (".png", ".svg"):
        raise UserError(f"{out}: pictures are PNG or SVG; give a name that ends in .png or .svg")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"{out}: there is no folder {out.parent}; make it first")
    generator = api.load(run)
    if out is None:
        answer = generator.generate(text, weights=True)
        draw(answer)
    else:
        answer = api.explain(generator, text, out)
        put_line(answer.text)
        say(f"wrote {out}")
    for flag in answer.flags:
        say(flag)


def draw(answer: Generation) -> None:
    """The answer and its weights as text."""
    from antiphon.pictures.terminal import attention_text

    put_line(answer.text)
    if answer.weights is None:
        return
    screen = sys.stdout.isatty()
    width = shutil.get_terminal_size((100, 24)).columns
    print(attention_text(answer.weights, answer.source_tokens, answer.tokens, width, colour=screen))
