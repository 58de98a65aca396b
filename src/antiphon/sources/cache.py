"""Where prepared data lies, and how something whole gets there."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

from antiphon.files import publish

__all__ = ["cache_folder", "publish_in_cache"]


def cache_folder() -> Path:
    """$ANTIPHON_CACHE, else $XDG_CACHE_HOME/antiphon, else ~/.cache/antiphon."""
    if own := os.environ.get("ANTIPHON_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "antiphon"
    return Path("~/.cache/antiphon").expanduser()


def publish_in_cache(folder: Path, *, replace: bool = False) -> AbstractContextManager[Path]:
    """As `files.publish`; the way out of a full disk is another cache."""
    return publish(folder, replace=replace, otherwise="set ANTIPHON_CACHE to another folder")
