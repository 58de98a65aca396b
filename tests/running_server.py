"""A server in a process of its own, as a user starts it, and a client for it."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

__all__ = ["RunningServer", "serving"]

STARTS = 240.0  # seconds after which a server that says nothing counts as broken


class RunningServer:
    """`antiphon serve` on a free port of the loopback interface."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []  # of its log, as far as they were read
        self._unread: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self.wait_for(r"at (http://\S+);")[1]
        self.client = httpx.Client(base_url=self.url, timeout=60.0)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._unread.put(line)
        self._unread.put(None)

    def wait_for(self, pattern: str, seconds: float = STARTS) -> re.Match[str]:
        """The first match in a line of the log that was not read yet."""
        end = time.monotonic() + seconds
        while True:
            line = self._unread.get(timeout=max(0.01, end - time.monotonic()))
            assert line is not None, f"the server has ended: {''.join(self.lines)}"
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found

    @property
    def log(self) -> str:
        """Everything that it has written so far."""
        while not self._unread.empty():
            self.lines.append(self._unread.get() or "")
        return "".join(self.lines)

    @property
    def workers(self) -> list[int]:
        """The process ids of its models."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(number) for number in children.split()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(10)
        return code


@contextmanager
def serving(*runs: str | Path, options: Sequence[str] = ()) -> Iterator[RunningServer]:
    """Start a server for these runs, and stop it at the end."""
    command = [sys.executable, "-m", "antiphon.cli.main", "serve", *map(str, runs), "--port", "0", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            server = RunningServer(process)
            yield server
            server.stop()
        finally:
            process.kill()
