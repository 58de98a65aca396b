"""Writing so that nothing is ever half there: temporary name, sync, rename."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from antiphon.errors import DiskError

__all__ = ["disk_errors", "publish_folder", "sha256", "sync", "to_json", "write_bytes", "write_text"]


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """What the disk refuses becomes a sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskError(f"{path}: cannot be written ({reason}); free some space or choose another folder") from error


def sync(path: Path) -> None:
    """Makes sure that a file or a folder's entries have reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file as a whole, or leaves it as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
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


def to_json(value: Any) -> str:
    """JSON for people: indented, in the order given, real characters."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def publish_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Fills a temporary folder beside `path`, syncs it and renames it into place, replacing what was there."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
        try:
            temporary.chmod(0o755)
            fill(temporary)
            for file in temporary.iterdir():
                sync(file)
            sync(temporary)
            if path.exists():
                shutil.rmtree(path)
            temporary.rename(path)
            sync(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
