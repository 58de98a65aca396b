"""antiphon joint, antiphon shortlist"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.io import program, say

__all__ = ["joint", "shortlist"]

# antiphon joint


def joint(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder whose training data is available.")],
) -> None:
    """Train a joint n-gram model that reranks answers.

    For pairs that align monotonically, such as spelling and pronunciation, two scripts, old and new spelling. It
    reranks the answers of a beam: `generate --joint 1`. A run trained with decoding.joint has one already.
    """
    from antiphon import api

    api.joint(run, say=say)
    name = shlex.quote(str(run))
    say(f"next: {program()} evaluate {name} PAIRS --joint 1, and with --joint 0 to compare")


def shortlist(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder whose training data is available.")],
    per_token: Annotated[int, typer.Option(min=1, help="Target tokens listed for each source token.")] = 40,
    always: Annotated[int, typer.Option(min=1, help="Frequent target tokens that every list contains.")] = 100,
) -> None:
    """Learn a shortlist of target tokens, for CTranslate2.

    IBM model 1 learns the likely translations of each source token from the training pairs. They are kept in the folder
    and exported by `export --to ctranslate2`; `generate --shortlist` then computes no other tokens.
    """
    from antiphon import api

    learnt = api.shortlist(run, per_token=per_token, always=always, say=say)
    mean = len(learnt.tokens) / max(1, int((learnt.offsets[1:] > learnt.offsets[:-1]).sum()))
    say(f"{mean:.1f} tokens for a source token on average, {len(learnt.always)} in every list")
    name = shlex.quote(str(run))
    say(f"next: {program()} export {name} --to ctranslate2 --out MODEL,")
    say(f"then: {program()} generate MODEL FILE --shortlist")
