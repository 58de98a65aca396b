"""antiphon cache"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from antiphon.cli.io import print_table, say

__all__ = ["cache"]


class CacheAction(StrEnum):
    """List or remove."""

    ls = "ls"
    clear = "clear"


def cache(
    action: Annotated[
        CacheAction, typer.Argument(metavar="ls|clear", help="List its items, or remove those that are not in use.")
    ] = CacheAction.ls,
) -> None:
    """List or clear the cache: prepared data and generated data sets.

    Examples that Python code passed in memory are there, too. The folder is $ANTIPHON_CACHE, else ~/.cache/antiphon.
    Above $ANTIPHON_CACHE_GB gigabytes (20) the items used longest ago are removed. An item that a process uses stays;
    the others are made again when they are needed.
    """
    from antiphon.cache import cache_entries, cache_limit, clear_cache
    from antiphon.files import cache_folder
    from antiphon.text import plural

    if action is CacheAction.clear:
        removed = clear_cache()
        freed, kept = gigabytes(sum(entry.size for entry in removed)), len(cache_entries())
        stay = f"; {plural(kept, 'items')} in use" if kept else ""
        say(f"{cache_folder()}: removed {plural(len(removed), 'items')}, {freed}{stay}")
        return
    limit, entries = cache_limit(), cache_entries()
    if entries:
        rows = [
            (
                entry.kind,
                entry.path.name,
                gigabytes(entry.size),
                datetime.fromtimestamp(entry.used).astimezone().strftime("%Y-%m-%d %H:%M"),
                "in use" if entry.in_use else "",
            )
            for entry in reversed(entries)
        ]
        print_table(("kind", "name", "size", "last use", ""), rows, left=2)
    size = gigabytes(sum(entry.size for entry in entries))
    say(f"{cache_folder()}: {plural(len(entries), 'items')}, {size} of at most {gigabytes(limit)} (ANTIPHON_CACHE_GB)")


def gigabytes(size: float) -> str:
    """12 kB, 3.4 MB, 20 GB"""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size / 1e3:.3g} kB"
