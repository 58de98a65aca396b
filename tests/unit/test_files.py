"""Contents reach the disk before the file gets its name, and the name afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from antiphon.files import TEMPORARY, publish, write_text


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The paths that are synced, in order, as they are called at that moment."""
    paths: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda handle: paths.append(Path(f"/proc/self/fd/{handle}").readlink()))
    return paths


def test_a_file(tmp_path: Path, synced: list[Path]) -> None:
    write_text(tmp_path / "a", "text")
    file, folder = synced
    assert file.name.startswith(f"{TEMPORARY}a")
    assert folder == tmp_path
    assert (tmp_path / "a").read_text() == "text"


@pytest.mark.parametrize("again", [False, True])
def test_a_folder_and_all_that_is_in_it(again: bool, tmp_path: Path, synced: list[Path]) -> None:
    if again:
        (tmp_path / "folder").mkdir()
    with publish(tmp_path / "folder", replace=again) as making:
        (making / "inner").mkdir()
        for name in ("a", "inner/b"):
            (making / name).write_text(name)
    assert {path.relative_to(making).as_posix() for path in synced[:4]} == {".", "a", "inner", "inner/b"}
    assert synced[-1] == tmp_path
    assert sorted(path.name for path in (tmp_path / "folder").rglob("*")) == ["a", "b", "inner"]
