"""The cache: prepared data, generated data sets and examples from memory. The entries used longest ago go first.

A process holds a lock on the entries that it uses, and those are never removed. (Without locks, as on Windows, a mapped
file cannot be removed; elsewhere a map of a removed file stays valid as long as the process lives.)
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import UserError
from antiphon.files import cache_folder, discard

__all__ = ["CacheEntry", "cache_entries", "cache_limit", "clear_cache", "hold_entry", "trim_cache"]

KINDS = ("data", "datasets", "examples")  # folders in the cache; what else is there stays
USUAL_GB = 20.0
HELD = 64  # locks of a process; only tests use more entries
_held: dict[tuple[int, int], int] = {}  # device and inode → open file


@dataclass(frozen=True)
class CacheEntry:
    """A file or folder in the cache."""

    kind: str
    path: Path
    size: int  # bytes
    used: float  # seconds since 1970
    in_use: bool


def hold_entry(path: Path) -> bool:
    """Mark an entry as used now, and by this process until it ends; False if there is no such entry."""
    with contextlib.suppress(OSError):  # Windows opens no folders; a shared cache may be another user's
        status = path.stat()
        if (status.st_dev, status.st_ino) not in _held:
            handle = os.open(path, os.O_RDONLY)
            status = os.fstat(handle)
            _lock(handle, exclusive=False)
            _held[status.st_dev, status.st_ino] = handle
            if len(_held) > HELD:
                os.close(_held.pop(next(iter(_held))))
        os.utime(path)
    return path.exists()  # it may have been removed before it was locked


def cache_entries() -> list[CacheEntry]:
    """All entries, the one used longest ago first."""
    paths = [(kind, path) for kind in KINDS for path in _inside(cache_folder() / kind)]
    found = [entry for kind, path in paths if (entry := _entry(kind, path)) is not None]
    return sorted(found, key=lambda entry: entry.used)


def cache_limit() -> float:
    """The size in bytes above which entries are removed: ANTIPHON_CACHE_GB gigabytes."""
    text = os.environ.get("ANTIPHON_CACHE_GB", "")
    try:
        limit = float(text) if text.strip() else USUAL_GB
    except ValueError:
        limit = math.nan
    if not limit >= 0:
        raise UserError(f"ANTIPHON_CACHE_GB: {text!r} is no number of gigabytes; set it for example to {USUAL_GB:g}")
    return limit * 1e9


def trim_cache() -> list[CacheEntry]:
    """Remove entries until the cache fits its limit, those used longest ago first; return them."""
    entries, limit = cache_entries(), cache_limit()
    size, removed = sum(entry.size for entry in entries), list[CacheEntry]()
    for entry in entries:
        if size > limit and _remove(entry):
            removed.append(entry)
            size -= entry.size
    return removed


def clear_cache() -> list[CacheEntry]:
    """Remove all entries that no process uses; return them."""
    return [entry for entry in cache_entries() if _remove(entry)]


def _inside(folder: Path) -> Iterator[Path]:
    """The entries in a folder; hidden ones are unfinished."""
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if not path.name.startswith("."))


def _entry(kind: str, path: Path) -> CacheEntry | None:
    try:
        files = [path, *path.rglob("*")]
        size = sum(file.lstat().st_size for file in files if not file.is_dir())
        with _alone(path) as alone:
            return CacheEntry(kind, path, size, path.stat().st_mtime, not alone)
    except OSError:
        return None  # another process has just removed it


def _remove(entry: CacheEntry) -> bool:
    """Remove an entry unless a process uses it."""
    with contextlib.suppress(OSError), _alone(entry.path) as alone:
        if alone:
            if entry.path.is_dir():
                discard(entry.path)
            else:
                entry.path.unlink()
            return True
    return False


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """True if no process uses an entry; none can begin to inside the context."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders
        yield True
        return
    try:
        yield _lock(handle, exclusive=True)
    finally:
        os.close(handle)


def _lock(handle: int, *, exclusive: bool) -> bool:
    """Lock an open file or folder; False if it cannot be locked now. Windows has no `fcntl`: no lock."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
    except BlockingIOError:
        return False
    except OSError:  # a disk without locks
        return True
    return True
