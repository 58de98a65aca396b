"""Atomic writes and the cache folder: a file or folder is complete or absent (temporary name, sync, rename)."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from antiphon.errors import DiskError

__all__ = [
    "REMEDIES", "cache_folder", "discard", "disk_errors", "publish", "publish_in_cache", "read_rows", "sha256",
    "sweep", "to_json", "write_bytes", "write_text",
]  # fmt: skip

TEMPORARY = ".making-"
ASIDE = f"{TEMPORARY}aside-"  # a folder whose replacement is not in its place yet
STALE_SECONDS = 24 * 3600
MANY_FILES, SYNC_THREADS = 200, 32  # from this number of files on, threads sync them
REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space or raise your quota",
    errno.EACCES: "change its permissions",
    errno.EPERM: "change its permissions",
    errno.EROFS: "the disk is read-only",
    errno.ENOTDIR: "a part of this path is a file",
    errno.EEXIST: "a part of this path is a file",
}


@contextmanager
def disk_errors(path: Path, otherwise: str = "choose another folder") -> Iterator[None]:
    """Turns an OSError into a DiskError with path, fact and remedy."""
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "check the disk")
        fact = f"{path}: cannot be written ({error.strerror or error})"
        raise DiskError(f"{fact}; {remedy}, or {otherwise}") from error


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, have reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file completely, or leave it unchanged."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}.{os.getpid()}")
    with disk_errors(path):
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode("utf-8"))


def to_json(value: dict[str, Any]) -> str:
    """Readable JSON: indented, in the order of the keys, without escapes."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The JSON objects in the lines of a file; without a file none, and without torn lines."""
    try:
        lines = path.read_text("utf-8", "replace").split("\n")  # not splitlines: U+2028 may stand inside a text
    except OSError:
        return []
    return [row for line in lines if isinstance(row := _json(line), dict)]


def _json(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


@contextmanager
def publish(folder: Path, *, replace: bool = False, otherwise: str = "choose another folder") -> Iterator[Path]:
    """A temporary folder to fill; when the block succeeds it becomes `folder`, completely or not at all.

    Without `replace`, a folder that another process made in the meantime stays and ours is removed.
    """
    with disk_errors(folder, otherwise):
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder.parent)
        temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder.parent))
        try:
            temporary.chmod(0o755)
            yield temporary
            _sync_all([*temporary.rglob("*"), temporary])
            if replace and folder.exists():
                _exchange(temporary, folder)
            else:
                _rename(temporary, folder)
            sync(folder.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def discard(folder: Path) -> None:
    """Remove a folder; at no moment is half of it there under its name."""
    with disk_errors(folder):
        grave = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=folder.parent))
        folder.rename(grave / folder.name)
        shutil.rmtree(grave, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Clean up after a killed process: restore folders without a replacement, remove unfinished ones.

    Only for a folder that no other process writes at the same time.
    """
    with disk_errors(folder):
        for aside in folder.glob(f"{ASIDE}*"):
            for old in aside.iterdir():
                if not (folder / old.name).exists():
                    old.rename(folder / old.name)
        for path in folder.glob(f"{TEMPORARY}*"):
            _remove(path)


def _sync_all(paths: list[Path]) -> None:
    """Sync all paths; thousands of small files wait for the disk together, a second instead of half a minute."""
    if len(paths) < MANY_FILES:
        for path in paths:
            sync(path)
        return
    with ThreadPoolExecutor(SYNC_THREADS) as pool:
        list(pool.map(sync, paths))


def _exchange(temporary: Path, folder: Path) -> None:
    """Replace a folder; the old one goes only when the new one is in its place. `sweep` repairs a kill in between."""
    aside = Path(tempfile.mkdtemp(prefix=ASIDE, dir=folder.parent))
    old = folder.rename(aside / folder.name)
    try:
        temporary.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    sync(folder.parent)
    _remove(aside)


def _rename(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _remove_stale(parent: Path) -> None:
    """Remove the temporary files of processes that were killed long ago."""
    for path in parent.glob(f"{TEMPORARY}*"):
        try:
            old = time.time() - path.stat().st_mtime > STALE_SECONDS
        except OSError:
            continue  # another process has just removed it
        if old:
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_folder() -> Path:
    """$ANTIPHON_CACHE, else $XDG_CACHE_HOME/antiphon, else ~/.cache/antiphon."""
    if own := os.environ.get("ANTIPHON_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "antiphon"
    return Path("~/.cache/antiphon").expanduser()


def publish_in_cache(folder: Path, *, replace: bool = False) -> AbstractContextManager[Path]:
    """`publish` for the cache; the remedy for a full disk is another cache."""
    return publish(folder, replace=replace, otherwise="set ANTIPHON_CACHE to another folder")
