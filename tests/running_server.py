"""A server in a process of its own, as a user starts it, and a client for it."""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

__all__ = ["SLOW", "RunningServer", "eventually", "post", "serving", "with_code"]

STARTS = 240.0  # seconds after which a server that says nothing counts as broken
SLOW = {"inputs": "a b c", "min_length": 100_000, "max_length": 100_000, "beam": 1}  # no test waits for the answer


def eventually(met: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until a condition is met."""
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, "this has not come about"
        time.sleep(0.02)


def post(path: str, body: bytes, *headers: str) -> bytes:
    """The bytes of a POST request; its length is a header unless there is a Transfer-Encoding."""
    length = [] if any("Transfer-Encoding" in header for header in headers) else [f"Content-Length: {len(body)}"]
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *length, *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def with_code(folder: Path, code: str) -> dict[str, str]:
    """The environment in which every new interpreter runs this code first."""
    (folder / "sitecustomize.py").write_text(code, "utf-8")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}


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

    def connect(self) -> socket.socket:
        """A connection of bytes."""
        return socket.create_connection(("127.0.0.1", httpx.URL(self.url).port or 0), timeout=60)

    def metric(self, sample: str) -> float:
        """The value of a line of /metrics, which is 0 before there is one."""
        with httpx.Client() as client:
            text = client.get(f"{self.url}/metrics").text
        found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    @property
    def queued(self) -> float:
        """Inputs that wait or are computed."""
        return self.metric('antiphon_queue_inputs{model="bahdanau"}')

    def memory(self) -> dict[int, float]:
        """Megabytes of the server and of its workers, by the numbers of their processes."""
        numbers = [self.process.pid, *self.workers]
        return {number: psutil.Process(number).memory_info().rss / 2**20 for number in numbers}

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
def serving(
    *runs: str | Path, options: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Iterator[RunningServer]:
    """Start a server for these runs, and stop it at the end."""
    command = [sys.executable, "-m", "antiphon.cli.main", "serve", *map(str, runs), "--port", "0", *options]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **(environment or {})}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=variables
    ) as process:
        try:
            server = RunningServer(process)
            yield server
            server.stop()
        finally:
            process.kill()
