"""SIGKILL at any instant, and the same command ends in the same bytes as the run that was never killed."""

from __future__ import annotations

import json
import random
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fault_runs import ENVIRONMENT, Baseline, ForkServer, checkpoints

from antiphon.cli.train import NOTHING_LEARNT
from antiphon.files import TEMPORARY
from antiphon.model_folder import load_model

KILLED = -signal.SIGKILL
DRAWS = 4


@pytest.fixture
def draw() -> random.Random:
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # shown when the test fails
    return random.Random(seed)


def to_the_end(fork_server: ForkServer, run: Path) -> None:
    ended = fork_server.train(run)
    assert ended.code == 0, ended.said
    leftovers = list(run.rglob(f"{TEMPORARY}*"))
    assert not leftovers


def test_the_same_seed_gives_the_same_bytes(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    to_the_end(fork_server, run)
    baseline.assert_same_end(run)


def test_killed_after_any_time(fork_server: ForkServer, baseline: Baseline, run: Path, draw: random.Random) -> None:
    for _ in range(6):
        ended = fork_server.train_and_kill(run, draw.uniform(0.05, 0.8) * baseline.seconds)
        assert ended.code in (0, KILLED), ended.said
    to_the_end(fork_server, run)
    baseline.assert_same_end(run)


@pytest.mark.parametrize("turn", range(DRAWS))
def test_killed_before_any_disk_operation(
    fork_server: ForkServer, baseline: Baseline, run: Path, draw: random.Random, turn: int
) -> None:
    """Writing checkpoints and weights, syncing, renaming, pruning: one kill in each quarter of the run, then more."""
    quarter = baseline.disk_operations // DRAWS
    number = turn * quarter + draw.randrange(1, quarter + 1)
    print(f"disk operation {number} of {baseline.disk_operations}")
    ended = fork_server.train(run, fault=("disk", number, "kill"))
    assert ended.code == KILLED, ended.said
    for _ in range(3):
        number = draw.randrange(1, baseline.disk_operations // 3)
        print(f"then disk operation {number}")
        assert fork_server.train(run, fault=("disk", number, "kill")).code in (0, KILLED)
    to_the_end(fork_server, run)
    baseline.assert_same_end(run)


def test_killed_before_a_pruning(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    """The last checkpoint is there, and so are those it makes superfluous: the next process throws them away."""
    seventh = 7  # at the beginning, at the updates 3, 5, 6, 9 and 10, and now at 12
    assert fork_server.train(run, fault=("pruning", seventh, "kill")).code == KILLED
    assert checkpoints(run)[-1] == "00000012"
    assert set(checkpoints(run)) - set(checkpoints(baseline.run))
    to_the_end(fork_server, run)
    baseline.assert_same_end(run)


@pytest.mark.parametrize("place", ["evaluation", "batch"])
def test_killed_in_evaluations_and_steps(
    fork_server: ForkServer, baseline: Baseline, run: Path, draw: random.Random, place: str
) -> None:
    for _ in range(3):
        number = draw.randrange(1, 3 if place == "evaluation" else 12)
        print(f"{place} {number}")
        assert fork_server.train(run, fault=(place, number, "kill")).code in (0, KILLED)
    to_the_end(fork_server, run)
    baseline.assert_same_end(run)


def test_killed_with_two_threads(fork_server: ForkServer, run: Path, tmp_path: Path, draw: random.Random) -> None:
    """Sums that two threads share, in layers wide enough for torch to share them."""
    wide = ("training.threads=2", "training.batch_tokens=400", "training.accumulate=1", "training.epochs=3")
    wide += ("model.encoder.size=96", "model.decoder.size=96", "training.schedule.warmup=0")
    alone = tmp_path / "alone"
    assert fork_server.train(alone, *wide).code == 0
    manifest = json.loads(next(alone.glob("checkpoints/*/manifest.json")).read_bytes())
    assert manifest["made_with"]["threads"] == 2
    for _ in range(2):
        assert fork_server.train(run, *wide, fault=("batch", draw.randrange(2, 8), "kill")).code in (0, KILLED)
    ended = fork_server.train(run, *wide)
    assert ended.code == 0, ended.said
    Baseline(alone, 0.0, 0, "").assert_same_end(run)


REPLACE = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from fork_server import Fault, watch_disk
from antiphon.files import publish, sweep

folder = Path(sys.argv[2]) / "00000005"
def make(text):
    with publish(folder, replace=True) as temporary:
        (temporary / "a").write_text(text)
        (temporary / "b").write_text(text)

make("0")
for number in range(1, 100):
    before = (folder / "a").read_text()
    process = os.fork()
    if process == 0:
        watch_disk(Fault(number, "kill"), str(folder.parent))
        make(str(number))
        os._exit(0)
    killed = os.waitpid(process, 0)[1] != 0
    sweep(folder.parent)
    found = {path.name: path.read_text() for path in folder.iterdir()}
    assert found in ({"a": before, "b": before}, {"a": str(number), "b": str(number)}), (number, found)
    assert os.listdir(folder.parent) == [folder.name]
    if not killed:
        break
print(number)
"""


def test_a_kill_never_loses_a_folder_that_is_being_replaced(tmp_path: Path) -> None:
    """Before every disk operation of a replacement: the old one or the new one is there, whole."""
    ended = subprocess.run(
        [sys.executable, "-c", REPLACE, str(Path(__file__).parent), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 10


def test_the_model_folder_is_whole_whenever_it_is_looked_at(
    fork_server: ForkServer, run: Path, draw: random.Random
) -> None:
    """Each kill leaves a folder that loads, once the first weights are there."""
    for _ in range(6):
        fork_server.train(run, fault=("disk", draw.randrange(30, 120), "kill"))
        if (run / "log.jsonl").exists():  # the first weights come before the first update
            assert load_model(run).model.parameter_count > 0


def test_the_real_command_killed(fork_server: ForkServer, baseline: Baseline, run: Path, draw: random.Random) -> None:
    command = [sys.executable, "-m", "antiphon.cli.main", "train", "config.yaml", "--out", str(run)]
    cache = {"ANTIPHON_CACHE": str(fork_server.folder / "cache")}
    first = subprocess.Popen(
        command, cwd=fork_server.folder, env={**ENVIRONMENT, **cache}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while first.poll() is None and not list(run.glob("checkpoints/0*")):
        time.sleep(0.001)
    time.sleep(draw.uniform(0.0, 0.3) * baseline.seconds)
    first.kill()
    first.communicate()
    again = subprocess.run(
        command, cwd=fork_server.folder, env={**ENVIRONMENT, **cache}, capture_output=True, text=True, check=False
    )
    assert again.returncode in (0, NOTHING_LEARNT), again.stderr  # 14 updates teach little
    assert again.stdout == f"{run}\n"
    baseline.assert_same_end(run)
