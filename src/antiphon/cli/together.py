"""One run, or several that answer as one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from antiphon.cli.searching import Mean

if TYPE_CHECKING:
    from antiphon.decoding.generator import Generator

__all__ = ["idle_combine", "load_together"]


def idle_combine(also: list[Path] | None, combine: Mean | None) -> list[str]:
    """The problem of a mean with nothing to mix."""
    if combine is None or also:
        return []
    return ["--combine: only for several runs; add --with RUN, or leave it out"]


def load_together(run: Path, also: list[Path] | None, combine: Mean | None, *, int8: bool) -> Generator:
    """RUN, with those of --with if there are any."""
    from antiphon import api

    if not also:
        return api.load(run, int8=int8)
    return api.load([run, *also], combine=(combine or Mean.arithmetic).value, int8=int8)
