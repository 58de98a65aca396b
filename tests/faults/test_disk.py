"""A full disk: a sentence, exit code 2, and what was there before is still there and whole."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_runs import Baseline, ForkServer, checkpoints
from fork_server import watch_room

from antiphon.errors import DiskError
from antiphon.files import TEMPORARY, publish, write_bytes
from antiphon.model_folder import is_intact
from antiphon.training.checkpoints import Checkpoints

ROOM = 260 * 1024
TURNS = 4


def assert_said(said: str) -> None:
    assert "No space left on device" in said
    assert "free some space" in said
    assert "Traceback" not in said
    assert "bug in Antiphon" not in said


def assert_nothing_lost(run: Path, newest_before: str) -> None:
    """Every checkpoint is whole, none younger than the newest of before was lost, the model can be used."""
    assert [one.damage() for one in Checkpoints(run / "checkpoints").all()] == [None] * len(checkpoints(run))
    assert checkpoints(run)[-1] >= newest_before
    assert is_intact(run)


@pytest.mark.parametrize("turn", range(TURNS))
def test_full_from_any_write_on(fork_server: ForkServer, baseline: Baseline, run: Path, turn: int) -> None:
    """Every write from that one on fails; when there is room again, the same command goes on to the same bytes."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    assert fork_server.train(run, fault=("batch", 8, "term")).code == 143
    newest = checkpoints(run)[-1]
    part = baseline.disk_operations // 2 // TURNS  # ten of fourteen updates are left, so half of all is always reached
    number = turn * part + random.Random(seed).randrange(1, part + 1)
    ended = fork_server.train(run, fault=("disk", number, "full"))
    assert ended.code == 2, ended.said
    assert_said(ended.said)
    assert_nothing_lost(run, newest)
    ended = fork_server.train(run)
    assert ended.code == 0, ended.said
    baseline.assert_same_end(run)


def mounted(folder: Path) -> bool:
    """A disk of ROOM bytes, if this machine lets us have one."""
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        return False
    command = [mount, "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def unmount(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], check=True)


def can_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        possible = mounted(Path(folder))
        if possible:
            unmount(Path(folder))
    return possible


@dataclass(frozen=True)
class SmallDisk:
    """A folder with little room: really so, or only so that every sync beyond it fails."""

    folder: Path
    fault: tuple[str, int, str] | None  # for fork_server.py

    def enlarge(self) -> None:
        if self.fault is None:
            subprocess.run(["mount", "-o", "remount,size=8m", str(self.folder)], check=True)


@pytest.fixture(params=["injected", "mounted"] if can_mount() else ["injected"])
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param == "mounted":
        assert mounted(folder)
        yield SmallDisk(folder, None)
        unmount(folder)
    else:
        really = os.fsync
        watch_room(ROOM, str(folder))
        yield SmallDisk(folder, ("room", ROOM, "full"))
        os.fsync = really


def test_a_disk_that_is_full(fork_server: ForkServer, baseline: Baseline, small_disk: SmallDisk) -> None:
    """Room for the first checkpoint and not for the third."""
    run = small_disk.folder / "run"
    ended = fork_server.train(run, fault=small_disk.fault)
    assert ended.code == 2, ended.said
    assert_said(ended.said)
    assert_nothing_lost(run, "00000003")
    small_disk.enlarge()
    ended = fork_server.train(run)
    assert ended.code == 0, ended.said
    assert "resuming from update" in ended.said
    baseline.assert_same_end(run)


def test_a_file_is_replaced_as_a_whole_or_not_at_all(small_disk: SmallDisk) -> None:
    path = small_disk.folder / "file"
    write_bytes(path, b"old")
    with pytest.raises(DiskError, match=r"file: cannot be written \(No space left on device\); free some space"):
        write_bytes(path, bytes(1_000_000))
    assert path.read_bytes() == b"old"
    assert list(small_disk.folder.iterdir()) == [path]


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(small_disk: SmallDisk) -> None:
    folder = small_disk.folder / "folder"
    with publish(folder) as temporary:
        (temporary / "file").write_bytes(b"old")
    with pytest.raises(DiskError, match="No space left on device"), publish(folder, replace=True) as temporary:
        (temporary / "file").write_bytes(bytes(1_000_000))
    assert (folder / "file").read_bytes() == b"old"
    assert not list(small_disk.folder.glob(f"{TEMPORARY}*"))


@pytest.mark.parametrize("name", ["", "sub"])
def test_a_run_folder_that_cannot_be_made(fork_server: ForkServer, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("in the way")
    ended = fork_server.train(tmp_path / "file" / name)
    assert ended.code == 2
    assert "cannot be written" in ended.said
    assert "Traceback" not in ended.said
