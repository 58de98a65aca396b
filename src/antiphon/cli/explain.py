"""antiphon explain"""

from __future__ import annotations

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack, cast

import typer

from antiphon.cli.io import print_line, say
from antiphon.cli.options import given_options, load_generator, with_search_flags
from antiphon.errors import UserError
from antiphon.inference.options import SearchKeywords

if TYPE_CHECKING:
    from antiphon.inference.generation import Generation
    from antiphon.inference.generator import Generator
    from antiphon.inference.token_tree import TokenTree
    from antiphon.plots.attention_views import AttentionKind, AttentionView

__all__ = ["explain"]

DEFAULT_PRUNED = 3
RunOrTrace = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run, a model folder or an export; or a trace (.json) to be drawn again."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(help="A .png or .svg file; with --tree also .json, the trace. Default: show it in the terminal."),
]


class AttentionChoice(StrEnum):
    """Kinds of attention: decoder to source, decoder to itself, encoder to itself."""

    cross = "cross"
    own = "own"
    source = "source"


@with_search_flags
def explain(
    run: RunOrTrace,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The input: a text or a path; several sources are separated by tabs."),
    ] = None,
    out: OutOption = None,
    attention: Annotated[
        AttentionChoice | None,
        typer.Option(
            help="cross: from the answer to the source; own: within the answer; source: within the source. "
            "Default: the first of them that the model has."
        ),
    ] = None,
    layer: Annotated[int | None, typer.Option(min=1, help="Only this layer, from 1. Default: all.")] = None,
    head: Annotated[int | None, typer.Option(min=1, help="Only this head, from 1. Default: all.")] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Draw the tree of the beam search instead.")] = False,
    pruned: Annotated[
        int | None, typer.Option(min=0, help="With --tree: pruned candidates to show at each step. Default: 3.")
    ] = None,
    at: Annotated[
        int | None, typer.Option(min=1, help="List the alternatives to this token of the greedy answer, from 1.")
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Draw the attention of this run to the same image below: soft and hard attention, for example.",
        ),
    ] = None,
    positions: Annotated[
        bool, typer.Option("--positions", help="Draw the positional encoding instead; needs --out and no TEXT.")
    ] = False,
    **options: Unpack[SearchKeywords],
) -> None:
    """Show the attention of the model while it answers.

    A picture has a panel for every layer and head; the terminal shows their mean. A language model reads TEXT and
    continues it by at most 24 tokens. --tree shows the beam search instead, --at the alternatives at a position of the
    answer: PROBABILITY, TOKEN, and the answer that would follow. --tree --out trace.json keeps the search, and
    `antiphon explain trace.json` shows it again without the model.
    """
    if run.suffix.lower() == ".json" and not run.is_dir():
        others = [text, attention, layer, head, pruned, at, beside, positions or None, *given_options(options)]
        show_saved_tree(run, out, alone=all(other is None for other in others))
        return
    from antiphon import api
    from antiphon.plots.attention_views import explain_attention

    kind = cast("AttentionKind | None", attention and attention.value)
    problems = option_problems(text, out, tree, positions, [attention, layer, head], given_options(options))
    problems += tree_problems(tree, at, out, pruned, [attention, layer, head], given_options(options), positions)
    if beside is not None and (out is None or tree or at is not None or positions or any([attention, layer, head])):
        problems.append(
            "--beside: it needs --out, and excludes --attention, --layer, --head, --tree, --at and --positions"
        )
    generator = load_generator(run, None, None, options, problems)
    if positions and out is not None:
        tables = api.positions(generator, out)
        for name, table in tables.items():
            say(f"{name}: {table.shape[0]} positions of {table.shape[1]} dimensions")
        say(f"wrote {out}")
    elif tree:
        say_input_flags(generator, str(text))
        show_tree(generator, str(text), out, DEFAULT_PRUNED if pruned is None else pruned, options)
    elif at is not None:
        say_input_flags(generator, str(text))
        for choice in generator.alternatives(str(text), at - 1):
            print_line(f"{choice.probability:.4f}", choice.token, choice.text)
    elif out is not None and beside is not None:
        print_answer(api.explain(generator, str(text), out, beside=api.load(beside), **options))
        say(f"wrote {out}")
    elif out is None:
        show_attention(generator, str(text), kind, layer, head, options)
    else:
        explained = explain_attention(generator, str(text), out, kind=kind, layer=layer, head=head, **options)
        print_answer(explained.answer)
        for path in explained.files:
            say(f"wrote {path}")


def option_problems(
    text: str | None, out: Path | None, tree: bool, positions: bool, attention_options: list[object], flags: list[str]
) -> list[str]:
    """Flags that exclude each other, and pictures that cannot be written."""
    from antiphon.plots.search_tree import TREE_SUFFIXES
    from antiphon.plots.style import PICTURES, folder_problems, suffix_problems

    problems = []
    if out is not None:
        problems = suffix_problems(out, TREE_SUFFIXES if tree else PICTURES) or folder_problems(out)
    if positions and out is None:
        problems.append("--positions: it cannot be shown in a terminal; add --out positions.png")
    if positions and (text is not None or any(option is not None for option in attention_options)):
        problems.append(
            "--positions: they are the same for every text; leave out TEXT, --attention, --layer and --head"
        )
    if positions and flags:
        problems.append(f"--positions: they are the same for every search; leave out {', '.join(flags)}")
    if not positions and text is None:
        problems.append("TEXT: it is missing; give a text, or --positions")
    return problems


def tree_problems(
    tree: bool,
    at: int | None,
    out: Path | None,
    pruned: int | None,
    attention_options: list[object],
    flags: list[str],
    positions: bool,
) -> list[str]:
    """Flags that exclude --tree, --at, or both."""
    problems = []
    if not tree and pruned is not None:
        problems.append("--pruned: only for --tree; add it, or leave it out")
    if at is not None and flags:
        problems.append(f"--at: it follows the greedy answer; leave out {', '.join(flags)}")
    if (tree or at is not None) and any(option is not None for option in attention_options):
        problems.append("--attention, --layer, --head: they choose an attention; leave out --tree and --at")
    if positions and (tree or at is not None):
        problems.append("--positions: they are the same for every search; leave out --tree and --at")
    if tree and at is not None:
        problems.append("--tree and --at: one at a time; leave one out")
    if at is not None and out is not None:
        problems.append("--at: the list goes to stdout; leave out --out")
    return problems


def show_tree(generator: Generator, text: str, out: Path | None, pruned: int, options: SearchKeywords) -> None:
    """The tree of the search, as a picture, as text or as its trace."""
    show_trace(generator.tree(text, pruned=pruned, **options), out)


def show_saved_tree(file: Path, out: Path | None, *, alone: bool) -> None:
    """The tree of a search that was kept; UserError if anything but --out is given with it."""
    from antiphon.inference.token_tree import TokenTree
    from antiphon.plots.search_tree import TREE_SUFFIXES
    from antiphon.plots.style import folder_problems, suffix_problems

    problems = [] if out is None else suffix_problems(out, TREE_SUFFIXES) or folder_problems(out)
    if not alone:
        problems.append(f"{file}: the trace of a search, which has all its options; leave out all others but --out")
    if problems:
        raise UserError(problems)
    show_trace(TokenTree.read(file), out)


def show_trace(explained: TokenTree, out: Path | None) -> None:
    from antiphon.plots.search_tree import TREE_LEGEND, draw_trace, tree_text

    if out is not None:
        draw_trace(explained, out)
        say(f"wrote {out}")
    else:
        print(tree_text(explained.tree, explained.symbols, shutil.get_terminal_size((100, 24)).columns))
        say(TREE_LEGEND)
    for name in explained.rerankers:
        say(f"{name} reranks the answers after the search: its best answer may differ from the one marked here")


def show_attention(
    generator: Generator,
    text: str,
    kind: AttentionKind | None,
    layer: int | None,
    head: int | None,
    options: SearchKeywords,
) -> None:
    """Print the answer and its attention as text."""
    from antiphon.plots.attention_views import answer_with_attention, attention_view
    from antiphon.plots.terminal import attention_text

    answer = answer_with_attention(generator, text, **options)
    view = attention_view(generator, answer, kind).only(layer=layer, head=head)
    print_answer(answer)
    if answer.heads is not None and view.weights.shape[:2] != (1, 1):
        say(describe_mean(view))
    width = shutil.get_terminal_size((100, 24)).columns
    print(
        attention_text(
            view.mean, view.columns, view.rows, width, colour=sys.stdout.isatty(), copy_probs=view.copy_probs
        )
    )


def describe_mean(view: AttentionView) -> str:
    """A sentence that names the layers and heads averaged over."""
    layers, heads = len(view.layers), len(view.heads)
    over = [f"{count} {name}s" for count, name in ((layers, "layer"), (heads, "head")) if count > 1]
    return f"{view.kind} attention, the mean over {' and '.join(over)}; --layer and --head show one, --out shows all"


def say_input_flags(generator: Generator, text: str) -> None:
    """Log the flags of an input: truncated, or with unknown tokens."""
    from antiphon.inference.inputs import encode_inputs

    [encoded] = encode_inputs(generator.codec, [text])
    for flag in encoded.flags:
        say(flag)


def print_answer(answer: Generation) -> None:
    print_line(answer.text)
    for flag in answer.flags:
        say(flag)
