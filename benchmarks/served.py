"""Servers to be measured, each a process with a load generator beside it; benchmarks/serving.py uses them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from http_load import Answer, Load, Outcome

__all__ = ["Running", "Served", "Usage", "antiphon_server", "cpu_seconds", "other_server", "running"]

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS = 120.0


@dataclass(frozen=True)
class Served:
    """A server to be measured: its command, in which {port} stands for the port, and its protocol."""

    name: str
    command: list[str]
    path: str
    body: Callable[[str], dict[str, object]]
    text: Callable[[dict[str, Any]], str]


def antiphon_server(model: str, threads: int, beam: int | None, extra: tuple[str, ...] = ()) -> Served:
    """`antiphon serve`."""
    options = {} if beam is None else {"beam": beam}
    command = ["-m", "antiphon.cli.main", "serve", model, "--port", "{port}", "--threads", str(threads), *extra]
    return Served(
        name="antiphon serve", command=[sys.executable, *command], path="/v1/generate",
        body=lambda text: {"inputs": text, **options}, text=lambda answer: str(answer["outputs"]["text"]),
    )  # fmt: skip


def other_server(kind: str, export: str, threads: int, beam: int) -> Served:
    """A plain route around CTranslate2, or LibreTranslate of another Python."""
    name, _, python = kind.partition("=")
    arguments = [export, "{port}", str(threads), str(beam)]
    if name == "ctranslate2":
        return Served(
            name="CTranslate2 behind a FastAPI route", path="/translate",
            command=[sys.executable, str(HERE / "plain_server.py"), *arguments],
            body=lambda text: {"text": text}, text=lambda answer: str(answer["text"]),
        )  # fmt: skip
    if name == "libretranslate" and python:
        return Served(
            name="LibreTranslate", command=[python, str(HERE / "libretranslate_server.py"), *arguments],
            path="/translate", body=lambda text: {"q": text, "source": "en", "target": "de"},
            text=lambda answer: str(answer["translatedText"]),
        )  # fmt: skip
    raise SystemExit(f"--beside {kind}: give ctranslate2 or libretranslate=PYTHON")


@dataclass(frozen=True)
class Usage:
    """CPU seconds of the server and of the processes that it has started, and inputs and batches so far."""

    server: float
    models: float
    inputs: float
    batches: float

    def since(self, before: Usage, requests: int) -> Usage:
        """The CPU seconds of each request, and all inputs and batches, between two moments."""
        return Usage(
            (self.server - before.server) / requests, (self.models - before.models) / requests,
            self.inputs - before.inputs, self.batches - before.batches,
        )  # fmt: skip


class Running:
    """A server that answers, and the load generator beside it."""

    def __init__(self, served: Served, process: subprocess.Popen[bytes], port: int) -> None:
        self.served, self.process, self.port = served, process, port
        command = [sys.executable, str(HERE / "http_load.py")]
        self._generator = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def load(self, texts: list[str], clients: int, requests: int, rate: float | None = None) -> Outcome:
        """Send requests, and wait until all are answered."""
        bodies = [json.dumps(self.served.body(text)) for text in texts]
        order = Load(self.port, self.served.path, bodies, clients, requests, rate)
        assert self._generator.stdin is not None
        assert self._generator.stdout is not None
        print(json.dumps(asdict(order)), file=self._generator.stdin, flush=True)
        found = json.loads(self._generator.stdout.readline())
        return Outcome([Answer(**answer) for answer in found["answers"]], found["cpu"])

    @property
    def pids(self) -> list[int]:
        """Of the server, and of the processes that it has started."""
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text("ascii")
        return [own, *map(int, children.split())]

    def usage(self) -> Usage:
        """What the server has used so far."""
        server, *models = (cpu_seconds(pid) for pid in self.pids)
        numbers = self._metrics() if self.served.path == "/v1/generate" else {}
        sums = (numbers.get(f"antiphon_batch_inputs_{name}", 0.0) for name in ("sum", "count"))
        return Usage(server, sum(models), *sums)

    def _metrics(self) -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            text = answer.read().decode()
        return {name: float(value) for name, value in re.findall(r"^(\w+)\S* (\S+)$", text, flags=re.MULTILINE)}

    def memory(self) -> list[float]:
        """MB of each process."""
        return [resident(pid) for pid in self.pids]

    def close(self) -> None:
        self._generator.kill()
        self._generator.communicate()
        self.process.terminate()
        self.process.wait(60)


@contextmanager
def running(served: Served, texts: list[str], threads: int) -> Iterator[Running]:
    """Start a server, wait until it answers, and stop it at the end."""
    port = free_port()
    command = [part.replace("{port}", str(port)) for part in served.command]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log, env=environment) as process:
        server = Running(served, process, port)
        try:
            wait_for(server, texts[0])
            yield server
        finally:
            server.close()


def wait_for(server: Running, text: str) -> None:
    """Wait until the server answers."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", server.port)).close()
        except OSError:
            time.sleep(0.2)
            continue
        if server.load([text], 1, 1).answers[0].status == 200:
            return
    raise SystemExit(f"{server.served.name} does not answer; run it to see why: {' '.join(server.served.command)}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid: int) -> float:
    """MB of memory of a process."""
    [kilobytes] = re.findall(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("utf-8"), flags=re.MULTILINE)
    return float(kilobytes) * 1024 / 1e6
