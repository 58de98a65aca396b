"""A server whose models do nothing for a while: their processes are stopped, so that nothing depends on time."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from running_server import RunningServer

__all__ = ["Busy", "busy", "loading", "wait_until"]


class Busy:
    """A server of which each model is held, until it is let go on."""

    def __init__(self, server: RunningServer, processes: list[int]) -> None:
        self.server, self.processes = server, processes

    def go_on(self) -> None:
        """Let the processes of the models run."""
        for number in self.processes:
            os.kill(number, signal.SIGCONT)


@contextmanager
def busy(server: RunningServer, body: dict[str, object], headers: dict[str, str]) -> Iterator[Busy]:
    """A request occupies the queue of its model; at the end it is answered."""
    statuses: list[int] = []

    def occupy() -> None:
        statuses.append(httpx.post(f"{server.url}/v1/generate", json=body, headers=headers, timeout=60.0).status_code)

    held = Busy(server, server.workers)
    for number in held.processes:
        os.kill(number, signal.SIGSTOP)
    thread = threading.Thread(target=occupy)
    thread.start()
    try:
        wait_until(lambda: " 1.0" in queue_line(server, str(body["model"]), headers))
        yield held
    finally:
        held.go_on()
        thread.join(60)
    assert statuses == [200]


def queue_line(server: RunningServer, model: str, headers: dict[str, str]) -> str:
    """The line of /metrics with the inputs in the queue of a model."""
    lines = server.client.get("/metrics", headers=headers).text.splitlines()
    return next(line for line in lines if line.startswith(f'antiphon_queue_inputs{{model="{model}"}}'))


@contextmanager
def loading(server: RunningServer) -> Iterator[Busy]:
    """The processes of all models have died and those that follow them cannot go on; at the end they are ready."""
    dead = server.workers
    for number in dead:
        os.kill(number, signal.SIGKILL)
    wait_until(lambda: len(begun := begun_workers(server)) == len(dead) and not {*dead} & {*begun})
    held = Busy(server, server.workers)
    for number in held.processes:
        os.kill(number, signal.SIGSTOP)
    try:
        assert server.client.get("/readyz").status_code == 503
        yield held
    finally:
        held.go_on()
    wait_until(lambda: server.client.get("/readyz").status_code == 200)


def begun_workers(server: RunningServer) -> list[int]:
    """The processes that are more than a copy of the server, which waits for them to become another program."""
    commands = {number: Path(f"/proc/{number}/cmdline") for number in server.workers}
    return [number for number, path in commands.items() if path.exists() and b"serve.worker" in path.read_bytes()]


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)
