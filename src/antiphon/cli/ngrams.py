"""antiphon shortlist"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.io import program, say

__all__ = ["joint", "shortlist"]

# antiphon joint


def joint(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder whose training pairs are there.")],
) -> None:
    """Count pieces of both texts, to choose better answers.

    For texts that go on together from left to right: spelling and sound, two scripts, old and new spelling. They help
    to choose among the answers of a beam: `generate --joint 1`. A run that learnt with decoding.joint has them already.
    """
    from antiphon import api

    api.joint(run, say=say)
    name = shlex.quote(str(run))
    say(f"next: {program()} evaluate {name} PAIRS --joint 1, and with --joint 0 to compare")


def shortlist(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run or model folder whose training pairs are there.")],
    per_token: Annotated[int, typer.Option(min=1, help="Target tokens that a source token can give.")] = 40,
    always: Annotated[int, typer.Option(min=1, help="The most frequent target tokens are on every list.")] = 100,
) -> None:
    """Learn which tokens a source can give, for CTranslate2.

    It is learnt from the training pairs by IBM model 1 and kept in the folder. `export --to ctranslate2` takes it
    along, and `generate --shortlist` then computes no other tokens.
    """
    from antiphon import api

    found = api.shortlist(run, per_token=per_token, always=always, say=say)
    mean = len(found.tokens) / max(1, int((found.offsets[1:] > found.offsets[:-1]).sum()))
    say(f"{mean:.1f} tokens for a source token on average, {len(found.always)} always")
    name = shlex.quote(str(run))
    say(f"next: {program()} export {name} --to ctranslate2 --out MODEL,")
    say(f"then: {program()} generate MODEL FILE --shortlist")
