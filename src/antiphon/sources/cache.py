"""The cache folder, and how something whole gets into it: written beside, synced, renamed."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from antiphon.errors import DiskError

__all__ = ["cache_folder", "discard", "disk_errors", "publish"]

TEMPORARY = ".making-"
STALE_SECONDS = 24 * 3600


def cache_folder() -> Path:
    """$ANTIPHON_CACHE, else $XDG_CACHE_HOME/antiphon, else ~/.cache/antiphon."""
    if own := os.environ.get("ANTIPHON_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "antiphon"
    return Path("~/.cache/antiphon").expanduser()


@contextmanager
def publish(folder: Path) -> Iterator[Path]:
    """A temporary folder to fill; when the block ends well it becomes `folder`, whole or not at all.

    If another process was quicker, its folder stays and ours is thrown away: both hold the same.
    """
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder.parent)
        temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder.parent))
        try:
            yield temporary
            for path in [*temporary.rglob("*"), temporary]:
                _sync(path)
            _rename(temporary, folder)
            _sync(folder.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def discard(folder: Path) -> None:
    """Throw a folder away; at no moment is half of it there under its name."""
    with disk_errors(folder):
        grave = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder.parent))
        folder.rename(grave / folder.name)
        shutil.rmtree(grave, ignore_errors=True)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """A full or forbidden disk as a sentence."""
    try:
        yield
    except OSError as error:
        remedy = {
            errno.ENOSPC: "free some space",
            errno.EDQUOT: "free some space or raise your quota",
            errno.EACCES: "give yourself the right to write there",
            errno.EPERM: "give yourself the right to write there",
            errno.EROFS: "the disk is read-only",
            errno.ENOTDIR: "a part of this path is a file",
            errno.EEXIST: "a part of this path is a file",
        }.get(error.errno or 0, "check the disk")
        fact = f"{path}: cannot be written ({error.strerror or error})"
        raise DiskError(f"{fact}; {remedy}, or set ANTIPHON_CACHE to another folder") from error


def _rename(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_stale(parent: Path) -> None:
    """Throw away what a killed process left behind long ago."""
    for path in parent.glob(f"{TEMPORARY}*"):
        try:
            old = time.time() - path.stat().st_mtime > STALE_SECONDS
        except OSError:
            continue  # another process has just removed it
        if old:
            shutil.rmtree(path, ignore_errors=True)
