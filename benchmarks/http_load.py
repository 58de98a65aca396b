"""A load generator for HTTP servers on this machine: closed loop, or a fixed rate; one thread, no library.

    python benchmarks/http_load.py < orders.jsonl

Each line of stdin is a `Load`, such as {"port": 8080, "path": "/v1/generate", "bodies": ["{}"], "clients": 8,
"requests": 100}; it is answered by a line with its `Outcome`. benchmarks/serving.py runs this as a process of its own
and reports the CPU time that it takes.
"""

from __future__ import annotations

import json
import math
import selectors
import socket
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Answer", "Load", "Outcome", "run"]

HOST = "127.0.0.1"
MOST_SECONDS = 300.0  # after which a load is given up
BROKEN = 0  # the status of a request whose connection was closed


@dataclass(frozen=True)
class Load:
    """The requests to send: `bodies` in turn, each as soon as a client is free, or at a fixed rate."""

    port: int
    path: str
    bodies: list[str]
    clients: int  # connections; with a rate the most there may be
    requests: int
    rate: float | None = None  # requests a second; None: closed loop

    def message(self, number: int) -> bytes:
        """The bytes of a request."""
        body = self.bodies[number % len(self.bodies)].encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def due(self, number: int) -> float:
        """Seconds after the start at which a request is due."""
        return 0.0 if self.rate is None else number / self.rate


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    number: int  # of the request
    status: int
    latency: float  # seconds; at a fixed rate from the time at which the request was due
    end: float  # seconds after the start of the load
    body: str

    def json(self) -> dict[str, Any]:
        """The object in its body."""
        return dict(json.loads(self.body))


@dataclass(frozen=True)
class Outcome:
    """All answers, in the order in which they came, and the CPU time of this process in seconds."""

    answers: list[Answer]
    cpu: float


class Client:
    """A connection that has one request at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = -1  # of the request it waits for
        self.began = 0.0
        self._received = b""

    def send(self, number: int, message: bytes, began: float) -> None:
        """Begin a request; its latency counts from `began`."""
        self.number, self.began, self._received = number, began, b""
        self.socket.sendall(message)

    def receive(self) -> tuple[int, str] | None:
        """The status and the body, once they are complete."""
        try:
            chunk = self.socket.recv(65536)
        except ConnectionError:
            chunk = b""
        if not chunk:
            return BROKEN, ""
        self._received += chunk
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or len(body) < content_length(head):
            return None
        return int(head[9:12]), body.decode()


def content_length(head: bytes) -> int:
    """The length that the headers name."""
    return int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])


class LoadGenerator:
    """Sends the requests of a load; `run` may be called once."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.answers: list[Answer] = []
        self._selector = selectors.DefaultSelector()
        self._free: deque[Client] = deque()
        self._clients = self._sent = 0
        self._start = time.perf_counter()

    def run(self) -> list[Answer]:
        """Send all requests and wait for the answers."""
        while len(self.answers) < self.load.requests and self._now < MOST_SECONDS:
            while self._next_in == 0.0:
                self._send()
            for key, _ in self._selector.select(min(1.0, self._next_in)):
                self._receive(key.data)
        for key in list(self._selector.get_map().values()):
            key.data.socket.close()
        return self.answers

    @property
    def _now(self) -> float:
        return time.perf_counter() - self._start

    @property
    def _next_in(self) -> float:
        """Seconds until the next request can be sent; infinity if none can before an answer comes."""
        if self._sent == self.load.requests or not (self._free or self._clients < self.load.clients):
            return math.inf
        return max(0.0, self.load.due(self._sent) - self._now)

    def _send(self) -> None:
        if not self._free:
            client = Client(self.load.port)
            self._selector.register(client.socket, selectors.EVENT_READ, client)
            self._free.append(client)
            self._clients += 1
        began = self._now if self.load.rate is None else self.load.due(self._sent)
        self._free.popleft().send(self._sent, self.load.message(self._sent), began)
        self._sent += 1

    def _receive(self, client: Client) -> None:
        if (answer := client.receive()) is None:
            return
        status, body = answer
        self.answers.append(Answer(client.number, status, self._now - client.began, self._now, body))
        if status != BROKEN:
            self._free.append(client)
            return
        self._selector.unregister(client.socket)
        client.socket.close()
        self._clients -= 1


def run(load: Load) -> Outcome:
    """Send all requests and wait for the answers."""
    began = time.process_time()
    return Outcome(LoadGenerator(load).run(), time.process_time() - began)


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(asdict(run(Load(**json.loads(line))))), flush=True)


if __name__ == "__main__":
    main()
