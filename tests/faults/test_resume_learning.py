"""Pretext noise, scheduled sampling and a frozen part of another run: a killed run ends in the same bytes."""

from __future__ import annotations

import random
import secrets
import signal
from pathlib import Path

import pytest
from fault_runs import Baseline, ForkServer

KILLED = -signal.SIGKILL
LEARNING = (
    "training.noise.mask=0.2",
    "training.noise.infill=0.2",
    "training.noise.delete=0.1",
    "training.noise.permute=true",
    "training.scheduled_sampling.probability=0.6",
    "training.scheduled_sampling.schedule=inverse-sigmoid",
    "training.scheduled_sampling.updates=9",
    "model.encoder.freeze=true",
)


@pytest.fixture
def draw() -> random.Random:
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # shown when the test fails
    return random.Random(seed)


def test_killed_while_it_learns_from_spoilt_sources(
    fork_server: ForkServer, baseline: Baseline, run: Path, tmp_path: Path, draw: random.Random
) -> None:
    """Also when the run that the frozen part was taken from has gone meanwhile."""
    other = tmp_path / "other"
    other.mkdir()
    for file in baseline.run.iterdir():
        if file.is_file():
            (other / file.name).write_bytes(file.read_bytes())
    options = (*LEARNING, f"model.encoder.from={other}")
    alone = tmp_path / "alone"
    ended = fork_server.train(alone, *options)
    assert ended.code == 0, ended.said
    number = draw.randrange(8, 22)  # two batches an update, a checkpoint after the third
    print(f"batch {number}")
    assert fork_server.train(run, *options, fault=("batch", number, "kill")).code == KILLED
    other.rename(tmp_path / "gone")
    assert fork_server.train(run, *options, fault=("batch", draw.randrange(1, 4), "kill")).code in (0, KILLED)
    ended = fork_server.train(run, *options)
    assert ended.code == 0, ended.said
    Baseline(alone, 0.0, 0, "").assert_same_end(run)
