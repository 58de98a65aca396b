"""A damaged checkpoint is noticed and named, and the one before is used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fault_runs import Baseline, ForkServer, checkpoints
from torch import nn

from antiphon.training.checkpoints import Checkpoints, Progress, average
from antiphon.training.optimizers import SGD

FILES = ["model.safetensors", "optimizer.safetensors", "progress.json", "manifest.json"]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    # Not in the middle of a manifest: another digest there means damage to the file that it belongs to.
    content[0 if path.suffix == ".json" else len(content) // 2] ^= 4
    path.write_bytes(content)


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def interrupted(fork_server: ForkServer, run: Path) -> None:
    """Stands at update 7 of 14, with checkpoints before it."""
    assert fork_server.train(run, fault=("batch", 13, "term")).code == 143
    assert checkpoints(run) == ["00000005", "00000006", "00000007"]


@pytest.mark.parametrize(
    ("damage", "file"),
    [(truncate, FILES[0]), (flip, FILES[1]), (remove, FILES[2]), (empty, FILES[3]), (remove, FILES[3])],
)
def test_the_one_before_is_used(
    fork_server: ForkServer, baseline: Baseline, run: Path, damage: Callable[[Path], None], file: str
) -> None:
    interrupted(fork_server, run)
    damage(run / "checkpoints" / "00000007" / file)
    ended = fork_server.train(run)
    assert ended.code == 0, ended.said
    assert f"{run}/checkpoints/00000007: damaged ({file}" in ended.said
    assert "using the one before, 00000006" in ended.said
    assert "resuming from update 6" in ended.said
    baseline.assert_same_end(run)


@pytest.mark.parametrize("damage", [truncate, flip, remove, empty])
@pytest.mark.parametrize("file", FILES)
def test_every_damage_to_every_file_is_seen(
    baseline: Baseline, tmp_path: Path, damage: Callable[[Path], None], file: str
) -> None:
    shutil.copytree(baseline.run / "checkpoints", tmp_path / "checkpoints")
    newest = Checkpoints(tmp_path / "checkpoints").all()[-1]
    assert newest.damage() is None
    damage(newest.folder / file)
    assert file in (newest.damage() or "")
    said: list[str] = []
    chosen = Checkpoints(tmp_path / "checkpoints").recover(said.append)
    assert chosen is not None
    assert chosen.update < newest.update
    assert len(said) == 1
    assert not newest.folder.exists()


def test_all_damaged_starts_over_and_says_so(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    interrupted(fork_server, run)
    for path in run.glob("checkpoints/*/model.safetensors"):
        flip(path)
    ended = fork_server.train(run)
    assert ended.code == 0, ended.said
    assert ended.said.count("damaged (model.safetensors does not match its checksum)") == 3
    assert "starting over" in ended.said
    assert "going on" not in ended.said
    baseline.assert_same_end(run)
    assert [json.loads(line)["update"] for line in (run / "log.jsonl").read_text().splitlines()] == [*range(1, 15)]


def test_a_damaged_checkpoint_of_the_average_is_left_out_and_named(fork_server: ForkServer, run: Path) -> None:
    """Older than the newest, so the run goes on; at the end it says what it could not use."""
    assert fork_server.train(run, fault=("batch", 24, "term")).code == 143
    flip(run / "checkpoints" / "00000010" / "model.safetensors")
    ended = fork_server.train(run)
    assert ended.code == 0, ended.said
    assert f"{run}/checkpoints/00000010: missing or damaged" in ended.said


def test_other_threads_are_said_to_be_inexact(fork_server: ForkServer, run: Path) -> None:
    interrupted(fork_server, run)
    path = run / "checkpoints" / "00000007" / "manifest.json"
    manifest = json.loads(path.read_bytes())
    assert manifest["made_with"]["threads"] == 1
    manifest["made_with"]["threads"] = 3
    path.write_text(json.dumps(manifest))
    ended = fork_server.train(run)
    assert ended.code == 0, ended.said
    assert "trained with threads 3, now 1" in ended.said
    assert "not be bit-exact" in ended.said


def test_equal_threads_are_not_mentioned(fork_server: ForkServer, run: Path) -> None:
    interrupted(fork_server, run)
    assert "bit-exact" not in fork_server.train(run).said


def saved(checkpoints: Checkpoints, update: int, value: float, in_a_row: int = 0) -> None:
    model = nn.Linear(2, 2)
    nn.init.constant_(model.weight, value)
    nn.init.constant_(model.bias, value)
    checkpoints.save(model, SGD(model), Progress(update=update, skipped_in_a_row=in_a_row))


def test_the_last_finite_one_is_never_pruned(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    saved(kept, 1, 1.0)
    saved(kept, 2, 2.0)
    for update, value, in_a_row in ((3, float("nan"), 0), (4, float("inf"), 0), (5, 1.0, 2)):
        saved(kept, update, value, in_a_row)
        kept.prune(set(), 1)
    assert [one.update for one in kept.all()] == [2, 5]
    said: list[str] = []
    chosen = kept.recover(said.append)
    assert chosen is not None
    assert chosen.update == 2
    assert "made when the loss was not finite; using the one before, 00000002" in said[0]


def test_pruning_keeps_what_it_is_told_to(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    for update in range(1, 7):
        saved(kept, update, 1.0)
    kept.prune({2}, 2)
    assert [one.update for one in kept.all()] == [2, 5, 6]


def test_the_average_is_the_mean(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    for update, value in ((1, 1.0), (2, 2.0), (3, 6.0)):
        saved(kept, update, value)
    assert average(kept.all())["weight"].tolist() == [[3.0, 3.0], [3.0, 3.0]]
