"""The cache: its entries, its limit, and the entries that a process uses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon import cache
from antiphon.cache import cache_entries, clear_cache, hold_entry, trim_cache
from antiphon.cli.main import run
from antiphon.config.schema import DataConfig
from antiphon.data.datasets import resolve
from antiphon.data.in_memory import store_examples
from antiphon.data.prepare import prepare
from antiphon.errors import UserError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_held", {})
    return tmp_path / "cache"


def entry(folder: Path, name: str, size: int, used: int) -> Path:
    """A folder, or a file in examples."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.startswith("examples"):
        path.write_bytes(b"x" * size)
    else:
        path.mkdir()
        (path / "ids.npy").write_bytes(b"x" * size)
    os.utime(path, (used, used))
    return path


def names() -> list[str]:
    return [found.path.name for found in cache_entries()]


def test_entries_by_last_use(folder: Path) -> None:
    for name, size, used in (("data/a", 10, 3), ("datasets/b", 20, 1), ("examples/c.jsonl", 30, 2)):
        entry(folder, name, size, used)
    (folder / "matmul.json").write_text("{}")
    (folder / "data" / ".making-x").mkdir()
    shown = [(found.kind, found.path.name, found.size, found.used, found.in_use) for found in cache_entries()]
    assert shown == [
        ("datasets", "b", 20, 1, False),
        ("examples", "c.jsonl", 30, 2, False),
        ("data", "a", 10, 3, False),
    ]


@pytest.mark.parametrize(
    ("limit", "left"),
    [("", ["b", "c.jsonl", "a"]), ("60.5e-9", ["b", "c.jsonl", "a"]), ("59.5e-9", ["c.jsonl", "a"]), ("0", [])],
)
def test_those_used_longest_ago_go_first(
    limit: str, left: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size, used in (("data/a", 10, 3), ("datasets/b", 20, 1), ("examples/c.jsonl", 30, 2)):
        entry(folder, name, size, used)
    monkeypatch.setenv("ANTIPHON_CACHE_GB", limit)
    trim_cache()
    assert names() == left


def test_use_makes_an_entry_the_newest(folder: Path) -> None:
    old, _ = entry(folder, "data/old", 1, 1), entry(folder, "data/new", 1, 2)
    assert hold_entry(old)
    assert names() == ["new", "old"]
    assert not hold_entry(folder / "data" / "none")


def test_an_entry_in_use_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_CACHE_GB", "0")
    for name in ("data/a", "examples/b.jsonl", "data/c"):
        entry(folder, name, 1, 1)
    hold_entry(folder / "data" / "a")
    hold_entry(folder / "examples" / "b.jsonl")
    assert [found.path.name for found in trim_cache()] == ["c"]
    assert {*names()} == {"a", "b.jsonl"}
    assert clear_cache() == []


def test_an_entry_that_another_process_uses_stays_until_it_ends(folder: Path) -> None:
    path = entry(folder, "data/a", 1, 1)
    code = "import sys, pathlib, antiphon.cache as c; c.hold_entry(pathlib.Path(sys.argv[1])); print(); input()"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert [found.in_use for found in cache_entries()] == [True]
        assert clear_cache() == []
        process.communicate("\n")
    assert [found.path for found in clear_cache()] == [path]


def test_a_process_holds_few_locks(folder: Path) -> None:
    for number in range(cache.HELD + 3):
        hold_entry(entry(folder, f"examples/{number}.jsonl", 1, 1))
    assert len(cache._held) == cache.HELD
    assert len(clear_cache()) == 3


@pytest.mark.parametrize("text", ["much", "-1", "nan"])
def test_a_limit_that_is_no_number(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    monkeypatch.setenv("ANTIPHON_CACHE_GB", text)
    with pytest.raises(UserError, match=f"ANTIPHON_CACHE_GB: '{text}' is no number of gigabytes; set it"):
        trim_cache()


def test_what_is_made_trims_the_cache_and_is_in_use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = [entry(folder, f"data/{number}", 1, number) for number in range(3)]
    monkeypatch.setenv("ANTIPHON_CACHE_GB", "0")
    file = store_examples([("ab", "ba"), ("b", "b"), ("a", "a")], DataConfig(train="x.jsonl"))
    assert not any(path.exists() for path in old)
    entry(folder, "data/0", 1, 1)
    prepare(DataConfig(train=file), lambda _: None)
    assert not old[0].exists()
    entry(folder, "data/0", 1, 1)
    resolve("@copy/dev")
    assert not old[0].exists()
    assert sorted(found.kind for found in cache_entries() if found.in_use) == ["data", "datasets", "examples"]
    resolve("@copy/dev")
    assert len(cache_entries()) == 3, "nothing was made twice"


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry(folder, "data/a", 2_500_000, 86_400)
    used = entry(folder, "examples/c.jsonl", 30, 86_401)
    assert run(["cache", "ls"]) == 0
    shown = capsys.readouterr()
    head, newest, oldest = shown.out.splitlines()
    assert head.split() == ["kind", "name", "size", "last", "use"]
    assert newest.split()[:4] == ["examples", "c.jsonl", "0.03", "kB"]
    assert oldest.split()[:4] == ["data", "a", "2.5", "MB"]
    assert shown.err.endswith(": 2 items, 2.5 MB of at most 20 GB (ANTIPHON_CACHE_GB)\n")
    hold_entry(used)
    assert run(["cache", "clear"]) == 0
    assert capsys.readouterr().err.endswith(": removed 1 item, 2.5 MB; 1 item in use\n")
    assert names() == ["c.jsonl"]
