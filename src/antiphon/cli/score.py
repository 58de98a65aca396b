"""antiphon score"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli.io import Flags, pair_files, put_json, put_line, say_dropped

if TYPE_CHECKING:
    from antiphon.inference.generation import ScoredTarget

__all__ = ["score"]

CHUNK = 1024  # pairs held in memory at a time


def score(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder.")],
    pairs: Annotated[
        list[str],
        typer.Argument(
            metavar="PAIRS", help="A file of pairs, or a source and a target file; for a language model a text file."
        ),
    ],
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Pairs scored together. Default: the model's decoding.batch_size.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with the tokens.")] = False,
) -> None:
    """How likely answers are: log p(target | source), or log p(text).

    A line for each pair, separated by tabs: log probability, source, target, log probability of each token. A language
    model has no sources: log probability, text, log probability of each token.
    """
    from antiphon import api
    from antiphon.data.encode import nothing_usable, usable_pairs
    from antiphon.data.pairs import DropLog

    files, dropped, seen = pair_files(pairs), DropLog(), Flags()
    generator = api.load(run)
    text = generator.config.data.source is None
    rows = usable_pairs(files, generator.config.data, generator.source, dropped)
    while chunk := [(pair.source, pair.target) for pair in islice(rows, CHUNK)]:
        for scored in generator.score(chunk, batch_size=batch_size):
            seen.add(scored.flags, listed=not as_json)
            put_scored(scored, as_json, text=text)
        sys.stdout.flush()
    seen.close()
    say_dropped(dropped.facts())
    if not seen.lines:
        raise nothing_usable(files, generator.config.data, dropped)


def put_scored(scored: ScoredTarget, as_json: bool, *, text: bool) -> None:
    """One pair, or one text, and its log probabilities."""
    said = {"text": scored.target} if text else {"source": scored.source, "target": scored.target}
    if not as_json:
        numbers = " ".join(f"{value:.4f}" for value in scored.log_probs)
        put_line(f"{scored.log_prob:.4f}", *said.values(), numbers)
        return
    found = {
        **said,
        "log_prob": scored.log_prob,
        "tokens": scored.tokens,
        "log_probs": scored.log_probs,
        "flags": scored.flags,
    }
    put_json(found)
