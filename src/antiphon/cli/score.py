"""antiphon score"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli.io import FlagCounter, in_batches, pair_files, print_json, print_line, say_dropped

if TYPE_CHECKING:
    from antiphon.inference.generation import ScoredTarget

__all__ = ["score"]

CHUNK_PAIRS = 1024  # pairs held in memory at a time


def score(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run, a model folder or an export.")],
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
    """Score given answers: log p(target | source), or log p(text).

    Prints a line for each pair, separated by tabs: log probability, source, target, log probability of each token. For
    a language model: log probability, text, log probability of each token.
    """
    from antiphon.data.encode import nothing_usable, usable_pairs
    from antiphon.data.pairs import DropLog
    from antiphon.model_folder import load

    files, dropped, counter = pair_files(pairs), DropLog(), FlagCounter()
    generator = load(run)
    text = generator.config.data.source is None
    rows = usable_pairs(files, generator.config.data, generator.source, dropped)
    for chunk in in_batches(rows, CHUNK_PAIRS, pairs[0]):
        for scored in generator.score([(pair.source, pair.target) for pair in chunk], batch_size=batch_size):
            counter.add(scored.flags, listed=not as_json)
            print_scored(scored, as_json, text=text)
        sys.stdout.flush()
    counter.close()
    say_dropped(dropped.facts())
    if not counter.lines:
        raise nothing_usable(files, generator.config.data, dropped)


def print_scored(scored: ScoredTarget, as_json: bool, *, text: bool) -> None:
    """Print a pair or a text with its log probabilities."""
    texts = {"text": scored.target} if text else {"source": scored.source, "target": scored.target}
    if not as_json:
        numbers = " ".join(f"{value:.4f}" for value in scored.log_probs)
        print_line(f"{scored.log_prob:.4f}", *texts.values(), numbers)
        return
    record = {
        **texts,
        "log_prob": scored.log_prob,
        "tokens": scored.tokens,
        "log_probs": scored.log_probs,
        "flags": scored.flags,
    }
    print_json(record)
