"""antiphon explain"""

from __future__ import annotations

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack, cast

import typer

from antiphon.cli.io import put_line, say
from antiphon.cli.options import Run, given_options, load_together, with_search_flags
from antiphon.inference.options import SearchKeywords

if TYPE_CHECKING:
    from antiphon.inference.generation import Generation
    from antiphon.inference.generator import Generator
    from antiphon.plots.attention_views import AttentionKind, AttentionView

__all__ = ["explain"]


PRUNED = 3  # candidates a step


class Attention(StrEnum):
    """From where to where."""

    cross = "cross"
    own = "own"
    source = "source"


@with_search_flags
def explain(
    run: Run,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What to answer: a text or a path; a tab between several.")
    ] = None,
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
    tree: Annotated[
        bool, typer.Option("--tree", help="Draw how the answer was searched for instead: the tree of the beam.")
    ] = False,
    pruned: Annotated[
        int | None, typer.Option(min=0, help="With --tree: pruned candidates to show at each step. Default: 3.")
    ] = None,
    at: Annotated[
        int | None, typer.Option(min=1, help="Tell what else could stand at this token of the answer, from 1.")
    ] = None,
    positions: Annotated[
        bool, typer.Option("--positions", help="Draw the positional encoding instead; needs --out and no TEXT.")
    ] = False,
    **options: Unpack[SearchKeywords],
) -> None:
    """Show where the model looked while it wrote its answer.

    A picture has a panel for every layer and head; the terminal shows their mean. A language model reads TEXT and goes
    on for at most 24 tokens. --tree shows instead how the answer was searched for, --at what else could stand at a
    position: PROBABILITY, TOKEN, and the answer that would follow.
    """
    from antiphon import api
    from antiphon.plots.attention_views import explain_attention

    kind = cast("AttentionKind | None", attention and attention.value)
    problems = contradictions(text, out, positions, [attention, layer, head], given_options(options))
    problems += of_search(tree, at, out, pruned, [attention, layer, head], given_options(options), positions)
    generator = load_together(run, None, None, options, problems)
    if positions and out is not None:
        tables = api.positions(generator, out)
        for name, table in tables.items():
            say(f"{name}: {table.shape[0]} positions of {table.shape[1]} dimensions")
        say(f"wrote {out}")
    elif tree:
        put_flags(generator, str(text))
        show_tree(generator, str(text), out, PRUNED if pruned is None else pruned, options)
    elif at is not None:
        put_flags(generator, str(text))
        for choice in generator.alternatives(str(text), at - 1):
            put_line(f"{choice.probability:.4f}", choice.token, choice.text)
    elif out is None:
        show(generator, str(text), kind, layer, head, options)
    else:
        explained = explain_attention(generator, str(text), out, kind=kind, layer=layer, head=head, **options)
        put_answer(explained.answer)
        for path in explained.files:
            say(f"wrote {path}")


def contradictions(
    text: str | None, out: Path | None, positions: bool, chosen: list[object], flags: list[str]
) -> list[str]:
    """What does not go together, and what cannot be written."""
    from antiphon.plots.style import folder_problems, suffix_problems

    problems = [] if out is None else suffix_problems(out) or folder_problems(out)
    if positions and out is None:
        problems.append("--positions: a terminal is too coarse for it; add --out positions.png")
    if positions and (text is not None or any(one is not None for one in chosen)):
        problems.append(
            "--positions: they are the same for every text; leave out TEXT, --attention, --layer and --head"
        )
    if positions and flags:
        problems.append(f"--positions: they are the same for every search; leave out {', '.join(flags)}")
    if not positions and text is None:
        problems.append("TEXT: nothing to answer; give a text, or --positions")
    return problems


def of_search(
    tree: bool,
    at: int | None,
    out: Path | None,
    pruned: int | None,
    looking: list[object],
    flags: list[str],
    positions: bool,
) -> list[str]:
    """What does not go together with the tree of a search, or with one position of an answer."""
    problems = []
    if not tree and pruned is not None:
        problems.append("--pruned: only for --tree; add it, or leave it out")
    if at is not None and flags:
        problems.append(f"--at: it follows the greedy answer; leave out {', '.join(flags)}")
    if (tree or at is not None) and any(one is not None for one in looking):
        problems.append("--attention, --layer, --head: they show where the model looked; leave out --tree and --at")
    if positions and (tree or at is not None):
        problems.append("--positions: they are the same for every search; leave out --tree and --at")
    if tree and at is not None:
        problems.append("--tree and --at: one at a time; leave one out")
    if at is not None and out is not None:
        problems.append("--at: it is a list, and goes to stdout; leave out --out")
    return problems


def show_tree(generator: Generator, text: str, out: Path | None, pruned: int, options: SearchKeywords) -> None:
    """The tree of the search, as a picture or as text."""
    from antiphon import api
    from antiphon.plots.search_tree import tree_text

    if out is not None:
        found = api.tree(generator, text, out, pruned=pruned, **options)
        say(f"wrote {out}")
    else:
        found = generator.tree(text, pruned=pruned, **options)
        print(tree_text(found.tree, found.symbols, shutil.get_terminal_size((100, 24)).columns))
    for name in found.rerankers:
        say(f"{name} orders the answers when the search is over: another one may win than is marked here")


def show(
    generator: Generator,
    text: str,
    kind: AttentionKind | None,
    layer: int | None,
    head: int | None,
    options: SearchKeywords,
) -> None:
    """The answer and where the model looked, as text."""
    from antiphon.plots.attention_views import answer_with_attention, attention_view
    from antiphon.plots.terminal import attention_text

    answer = answer_with_attention(generator, text, **options)
    view = attention_view(generator, answer, kind).only(layer=layer, head=head)
    put_answer(answer)
    if answer.heads is not None and view.weights.shape[:2] != (1, 1):
        say(mean_of(view))
    width = shutil.get_terminal_size((100, 24)).columns
    print(
        attention_text(
            view.mean, view.columns, view.rows, width, colour=sys.stdout.isatty(), copy_probs=view.copy_probs
        )
    )


def mean_of(view: AttentionView) -> str:
    """What a mean is taken over."""
    layers, heads = len(view.layers), len(view.heads)
    over = [f"{count} {name}s" for count, name in ((layers, "layer"), (heads, "head")) if count > 1]
    return f"{view.kind} attention, the mean over {' and '.join(over)}; --layer and --head show one, --out shows all"


def put_flags(generator: Generator, text: str) -> None:
    """What was not read of a text, or not known."""
    from antiphon.inference.inputs import encode_inputs

    [encoded] = encode_inputs(generator.codec, [text])
    for flag in encoded.flags:
        say(flag)


def put_answer(answer: Generation) -> None:
    put_line(answer.text)
    for flag in answer.flags:
        say(flag)
