"""antiphon explain"""

from __future__ import annotations

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from antiphon.cli.output import put_line, say

if TYPE_CHECKING:
    from antiphon.decoding.generation import Generation
    from antiphon.decoding.generator import Generator
    from antiphon.pictures.views import Kind, View

__all__ = ["explain"]


class Attention(StrEnum):
    """From where to where."""

    cross = "cross"
    own = "own"
    source = "source"


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder.")],
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="What to answer.")] = None,
    out: Annotated[Path | None, typer.Option(help="A .png or .svg file; without it the terminal shows it.")] = None,
    attention: Annotated[
        Attention | None,
        typer.Option(
            help="cross: the answer to the source; own: the answer to itself; source: the source to itself. "
            "Default: the first of them that the model has."
        ),
    ] = None,
    layer: Annotated[int | None, typer.Option(min=1, help="Only this layer, from 1. Default: all.")] = None,
    head: Annotated[int | None, typer.Option(min=1, help="Only this head, from 1. Default: all.")] = None,
    positions: Annotated[
        bool, typer.Option("--positions", help="Draw the positional encoding instead; needs --out and no TEXT.")
    ] = False,
) -> None:
    """Show where the model looked while it wrote its answer.

    A picture has a panel for every layer and head; the terminal shows their mean. A language model reads TEXT and goes
    on for at most 24 tokens.
    """
    from antiphon import api
    from antiphon.errors import UserError

    if problems := contradictions(text, out, positions, [attention, layer, head]):
        raise UserError(problems)
    kind = cast("Kind | None", attention and attention.value)
    generator = api.load(run)
    if positions and out is not None:
        tables = api.positions(generator, out)
        for name, table in tables.items():
            say(f"{name}: {table.shape[0]} positions of {table.shape[1]} dimensions")
        say(f"wrote {out}")
    elif out is None:
        show(generator, str(text), kind, layer, head)
    else:
        answer = api.explain(generator, str(text), out, attention=kind, layer=layer, head=head)
        put_answer(answer)
        say(f"wrote {out}")


def contradictions(text: str | None, out: Path | None, positions: bool, chosen: list[object]) -> list[str]:
    """What does not go together, and what cannot be written."""
    from antiphon.pictures.paths import PICTURES, folder_problems, suffix_problems

    problems = [] if out is None else suffix_problems(out, PICTURES) or folder_problems(out)
    if positions and out is None:
        problems.append("--positions: a terminal is too coarse for it; add --out positions.png")
    if positions and (text is not None or any(one is not None for one in chosen)):
        problems.append(
            "--positions: they are the same for every text; leave out TEXT, --attention, --layer and --head"
        )
    if not positions and text is None:
        problems.append("TEXT: nothing to answer; give a text, or --positions")
    return problems


def show(generator: Generator, text: str, kind: Kind | None, layer: int | None, head: int | None) -> None:
    """The answer and where the model looked, as text."""
    from antiphon.pictures.terminal import attention_text
    from antiphon.pictures.views import answer_and_look, view_of

    answer = answer_and_look(generator, text)
    view = view_of(generator, answer, kind).only(layer=layer, head=head)
    put_answer(answer)
    if answer.looks is not None and view.weights.shape[:2] != (1, 1):
        say(mean_of(view))
    width = shutil.get_terminal_size((100, 24)).columns
    print(attention_text(view.mean, view.columns, view.rows, width, colour=sys.stdout.isatty()))


def mean_of(view: View) -> str:
    """What a mean is taken over."""
    layers, heads = len(view.layers), len(view.heads)
    over = [f"{count} {name}s" for count, name in ((layers, "layer"), (heads, "head")) if count > 1]
    return f"{view.kind} attention, the mean over {' and '.join(over)}; --layer and --head show one, --out shows all"


def put_answer(answer: Generation) -> None:
    put_line(answer.text)
    for flag in answer.flags:
        say(flag)
