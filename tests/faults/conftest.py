"""The fixtures of the fault tests: one server to fork trainings from, one training that nobody disturbs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_runs import ENVIRONMENT, Baseline, ForkServer, write_data


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory: pytest.TempPathFactory, cache_of_the_session: None) -> Iterator[ForkServer]:  # noqa: ARG001
    folder = tmp_path_factory.mktemp("fork_server")
    write_data(folder)
    cache = {"ANTIPHON_CACHE": str(folder / "cache")}
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("fork_server.py"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**ENVIRONMENT, **cache}
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield ForkServer(folder, server)
        server.stdin.close()


@pytest.fixture(scope="session")
def baseline(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    run = tmp_path_factory.mktemp("baseline") / "run"
    began = time.perf_counter()
    ended = fork_server.train(run)
    seconds = time.perf_counter() - began
    assert ended.code == 0, ended.said
    assert ended.passed is not None
    return Baseline(run, seconds, ended.passed, ended.said)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"
