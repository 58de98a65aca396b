"""Clients that dawdle, flood, lie and vanish: after each the server answers, frees what it held, and has not grown."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from pathlib import Path

import httpx
import psutil
import pytest
from running_server import SLOW, RunningServer, eventually, post, serving, with_code

MEGABYTE = 2**20
MOST_BYTES = 2 * MEGABYTE
MOST_GROWTH = 120  # megabytes, for a moment
TIMEOUT = 2


# The kernel would take megabytes of an answer before the server could know that nobody reads it.
NARROW = """
import socket
true_listen = socket.socket.listen

def listen(self, *backlog):
    self.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    true_listen(self, *backlog)

socket.socket.listen = listen
"""


@pytest.fixture(scope="module")
def tough(bahdanau_run: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with short limits and a narrow network."""
    options = ["--timeout", str(TIMEOUT), "--wait", "0.5", "--max-bytes", str(MOST_BYTES), "--threads", "1"]
    narrow = with_code(tmp_path_factory.mktemp("narrow"), NARROW)
    with serving(bahdanau_run, options=options, environment=narrow) as running:
        for _ in range(30):
            running.client.post("/v1/generate", json={"inputs": "a b c", "beam": 3})
        yield running


def peaks(server: RunningServer) -> list[int]:
    """The largest memory of the server and of its model since the last call, in megabytes."""
    found = []
    for number in (server.process.pid, *server.workers):
        status = Path(f"/proc/{number}/status").read_text("utf-8")
        found.append(int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) // 1024)
        Path(f"/proc/{number}/clear_refs").write_text("5", "utf-8")
    return found


def connections(server: RunningServer) -> int:
    """Clients that are connected."""
    return len([one for one in psutil.Process(server.process.pid).net_connections() if one.raddr])


def left(server: RunningServer, sock: socket.socket) -> bool:
    """The server has given up this connection."""
    port = sock.getsockname()[1]
    return port not in [one.raddr.port for one in psutil.Process(server.process.pid).net_connections() if one.raddr]


@pytest.fixture(autouse=True)
def well(tough: RunningServer) -> Iterator[None]:
    """After every test: an answer, no work left, no connection left, no more memory than before."""
    peaks(tough)
    before = peaks(tough)
    yield
    tough.client.close()
    tough.client = httpx.Client(base_url=tough.url, timeout=60.0)
    assert tough.client.post("/v1/generate", json={"inputs": "a b c"}).status_code == 200
    eventually(lambda: tough.queued == 0)
    eventually(lambda: connections(tough) <= 1)
    after = peaks(tough)
    assert [one - other for one, other in zip(after, before, strict=True) if one - other > MOST_GROWTH] == []


def read_all(sock: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts)


def refusal(sock: socket.socket) -> tuple[int, str]:
    """The status and the code of the next answer."""
    answer = HTTPResponse(sock)
    answer.begin()
    return answer.status, json.loads(answer.read())["error"]["code"]


def closed(sock: socket.socket) -> bool:
    """The server has left, whatever it has sent before."""
    sock.setblocking(False)
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def lazy(server: RunningServer) -> socket.socket:
    """A connection whose client takes next to nothing."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", httpx.URL(server.url).port or 0))
    return sock


def test_a_stream_that_nobody_reads_is_left(tough: RunningServer) -> None:
    with lazy(tough) as sock:
        body = {"inputs": "a b c", "beam": 4, "max_length": 20_000, "min_length": 20_000, "search": True}
        sock.sendall(post("/v1/generate/stream", json.dumps(body).encode()))
        eventually(lambda: tough.queued == 1)
        eventually(lambda: tough.queued == 0)
        eventually(lambda: left(tough, sock))


def test_answers_that_nobody_reads_are_left(tough: RunningServer) -> None:
    with lazy(tough) as sock:
        sock.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        eventually(lambda: left(tough, sock))


def test_who_reads_slowly_gets_everything(tough: RunningServer) -> None:
    """A pause that is shorter than the limit, after each of a few pieces."""
    whole = len(tough.client.get("/openapi.json").content)
    with lazy(tough) as sock:
        sock.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        read = 0
        while part := sock.recv(max(1, whole // 3)):
            read += len(part)
            time.sleep(TIMEOUT / 5)
    assert read > whole


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /livez HT",
        b"GET /livez HTTP/1.1\r\nHost: local",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /live",
        b"\r\n\r\n",
    ],
)
def test_a_connection_without_a_request_is_closed(tough: RunningServer, sent: bytes) -> None:
    with tough.connect() as sock:
        sock.sendall(sent)
        read_all(sock)


def test_a_request_that_begins_drop_by_drop_is_closed(tough: RunningServer) -> None:
    """A byte now and then does not hold a connection for ever."""
    with tough.connect() as sock, contextlib.suppress(ConnectionError):
        for byte in b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1000:
            sock.sendall(bytes([byte]))
            time.sleep(0.05)
        pytest.fail("it was held for 50 seconds")


def test_half_a_body_is_a_request_that_came_too_late(tough: RunningServer) -> None:
    with tough.connect() as sock:
        sock.sendall(b"POST /v1/generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n" + b'{"inputs"')
        assert refusal(sock) == (408, "slow_body")
        read_all(sock)  # the connection does not wait for the rest


def test_a_body_that_comes_drop_by_drop_too(tough: RunningServer) -> None:
    with tough.connect() as sock:
        sock.sendall(b"POST /v1/generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        sock.settimeout(0.1)
        for _ in range(200):
            sock.sendall(b"1\r\n \r\n")
            with contextlib.suppress(TimeoutError):
                assert sock.recv(65536).startswith(b"HTTP/1.1 408")
                break
        else:
            pytest.fail("no answer")


@pytest.mark.parametrize("path", ["/v1/generate", "/v1/score", "/nothing", "/livez"])
def test_a_hundred_megabytes_are_refused_before_they_are_sent(tough: RunningServer, path: str) -> None:
    with tough.connect() as sock:
        size = 100 * MEGABYTE
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode())
        assert refusal(sock) in ((413, "too_large"), (404, "unknown_path"), (405, "wrong_method"))
        with contextlib.suppress(ConnectionError):  # and cut off
            for _ in range(100):
                sock.sendall(bytes(MEGABYTE))
            pytest.fail("all was read")


def test_a_little_too_much_is_read_to_its_end_so_that_every_client_sees_why(tough: RunningServer) -> None:
    for _ in range(3):
        answer = tough.client.post("/v1/generate", content=b" " * (5 * MEGABYTE))
        assert (answer.status_code, answer.json()["error"]["limit"]) == (413, MOST_BYTES)


def test_many_bodies_at_once_hold_no_more_memory_than_is_meant_for_them(tough: RunningServer) -> None:
    """Each is allowed; of forty that are never complete those beyond the sixteenth are refused at once."""
    part = b"POST /v1/generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n" + bytes(1_900_000)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(tough.connect()) for _ in range(40)]
        with ThreadPoolExecutor(40) as pool:
            list(pool.map(lambda sock: sock.sendall(part), sockets))
        found = [refusal(sock) for sock in sockets]
    assert set(found) == {(429, "too_many_bytes"), (408, "slow_body")}
    assert found.count((408, "slow_body")) <= 17


def test_who_asks_before_sending_is_spared(tough: RunningServer) -> None:
    head = "POST /v1/generate HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n"
    with tough.connect() as sock:
        sock.sendall(head.format(100 * MEGABYTE).encode())
        assert sock.recv(65536).startswith(b"HTTP/1.1 413")
    with tough.connect() as sock:
        body = b'{"inputs": "a"}'
        sock.sendall(head.format(len(body)).encode())
        assert sock.recv(65536).startswith(b"HTTP/1.1 100")
        sock.sendall(body)
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_body_without_an_end_is_cut_off(tough: RunningServer) -> None:
    with tough.connect() as sock:
        sock.sendall(b"POST /v1/generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent, chunk = 0, b"100000\r\n" + bytes(MEGABYTE) + b"\r\n"
        with contextlib.suppress(ConnectionError):
            while sent < 200:
                sock.sendall(chunk)
                sent += 1
        assert sent < 60  # megabytes; some are on their way when it is refused
        assert sock.recv(65536).startswith(b"HTTP/1.1 413")


def test_a_packed_body_is_not_unpacked(tough: RunningServer) -> None:
    bomb = gzip.compress(bytes(200 * MEGABYTE), 1)
    for encoding in ("gzip", "deflate", "br", "zstd", "gzip, gzip", "X-Gzip"):
        answer = tough.client.post("/v1/generate", content=bomb[:MEGABYTE], headers={"Content-Encoding": encoding})
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "wrong_content_encoding")
    plain = tough.client.post("/v1/generate", json={"inputs": "a"}, headers={"Content-Encoding": "identity"})
    assert plain.status_code == 200


def test_bodies_of_countless_values_are_refused(tough: RunningServer) -> None:
    for body, status in (
        (b'{"inputs": ' + b"[" * 900_000, 413),
        (b'{"inputs": [' + b"{}," * 600_000 + b"{}]}", 413),
        (b'{"inputs": ' + b"[" * 200_000, 400),
        (b'{"inputs": [' + b"1," * 30_000 + b"1]}", 422),
        (b'{"answer": [' + b'"a",' * 500_000 + b'"a"]}', 413),
        (b"{" + b",".join(b'"%x":0' % number for number in range(32_000)) + b"}", 422),
    ):
        assert tough.client.post("/v1/generate", content=body).status_code == status
    many = "&".join(f"a{number}=1" for number in range(150_000))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert tough.client.post("/v1/generate", content=many, headers=form).status_code == 400


def test_five_hundred_connections_are_opened_and_closed(tough: RunningServer) -> None:
    """All at once, in four ways: saying nothing, half a request, a whole one, and with a reset."""
    whole = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    starts = (b"", whole[:7], whole, post("/v1/generate", b'{"inputs": "a"}'))
    sockets = [tough.connect() for _ in range(500)]
    for number, sock in enumerate(sockets):
        with contextlib.suppress(ConnectionError):  # its time may be over before its turn
            sock.sendall(starts[number % 4])
    assert tough.client.post("/v1/generate", json={"inputs": "a"}).status_code == 200
    for number, sock in enumerate(sockets):
        if number % 8 < 4:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes with a reset
        sock.close()


def test_noise_is_no_request(tough: RunningServer) -> None:
    """Random bytes alone, behind a request, and within one; each connection is closed."""
    random_numbers = random.Random(11)
    whole = post("/v1/generate", b'{"inputs": "a"}')
    for number in range(120):
        noise = random_numbers.randbytes(random_numbers.randrange(1, 2000))
        place = random_numbers.randrange(len(whole))
        sent = (noise, whole + noise, whole[:place] + noise + whole[place:])[number % 3]
        with tough.connect() as sock:
            with contextlib.suppress(ConnectionError):
                sock.sendall(sent)
                sock.shutdown(socket.SHUT_WR)
            answer = read_all(sock)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
            assert b"HTTP/1.1 500" not in answer


def test_requests_behind_each_other_are_answered_in_order(tough: RunningServer) -> None:
    texts = ["a", "b c", "", "d e f", "g h a b"]
    wanted = [tough.client.post("/v1/generate", json={"inputs": text}).json()["outputs"]["text"] for text in texts]
    with tough.connect() as sock:
        bodies = [json.dumps({"inputs": text}).encode() for text in texts]
        sock.sendall(b"".join(post("/v1/generate", body) for body in bodies[:-1]))
        sock.sendall(post("/v1/generate", bodies[-1], "Connection: close"))
        answers = re.findall(rb'"text":"([^"]*)"', read_all(sock))
    assert [answer.decode() for answer in answers] == wanted


def test_clients_that_vanish_at_any_moment_leave_nothing_behind(tough: RunningServer) -> None:
    random_numbers = random.Random(5)
    paths = ("/v1/generate", "/v1/generate/stream", "/v1/search", "/v1/score")

    def vanish(number: int) -> None:
        body = {"inputs": "a b c d", "targets": "K L"} if number % 4 == 3 else {"inputs": "a b c d", "beam": 3}
        data = post(paths[number % 4], json.dumps(body).encode())
        with tough.connect() as sock:
            sock.sendall(data[: random_numbers.randrange(1, len(data) + 200)])
            time.sleep(random_numbers.random() / 50)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(vanish, range(200)))


def test_memory_does_not_grow_with_the_number_of_requests(tough: RunningServer) -> None:
    def ask(count: int) -> None:
        def client(number: int) -> None:
            with httpx.Client(base_url=tough.url, timeout=60) as own:
                for turn in range(count // 4):
                    text = " ".join("abcdefgh"[(turn + number + place) % 8] for place in range(1 + turn % 12))
                    body = {"inputs": [text, f"unknown{turn}"], "beam": 1 + turn % 3}
                    own.post("/v1/generate", json=body, headers={"X-Request-ID": f"{number}-{turn}"})
                    if turn % 5 == 0:
                        own.get(f"/nothing/{turn}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(client, range(4)))

    ask(200)
    before = tough.memory()
    ask(1000)
    after = tough.memory()
    assert before.keys() == after.keys()
    assert {number: size - before[number] for number, size in after.items() if size - before[number] > 15} == {}
    lines = tough.client.get("/metrics").text.splitlines()
    assert len(lines) < 1000  # a label for each route, none for a path


def test_a_log_that_nobody_reads_any_more_is_no_reason_to_stop(bahdanau_run: str) -> None:
    command = [sys.executable, "-m", "antiphon.cli.main", "serve", bahdanau_run, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"at (http://\S+);", process.stderr.readline())
        assert found is not None
        process.stderr.close()
        with httpx.Client(base_url=found[1], timeout=60) as client:
            for _ in range(3):
                assert client.post("/v1/generate", json={"inputs": "a"}).status_code == 200
                assert client.get("/livez", headers={"X": "x" * 600_000}).status_code == 431
        process.terminate()
        process.wait(60)


JUMPING = """
import itertools, time
true_time, jumps = time.time, itertools.cycle((0.0, 3e8, -3e8, 7.0))
time.time = lambda: true_time() + next(jumps)
"""


def test_a_clock_that_jumps_moves_no_deadline(bahdanau_run: str, tmp_path: Path) -> None:
    """Every look at the wall clock of the server and of its model is years away from the last."""
    with serving(bahdanau_run, environment=with_code(tmp_path, JUMPING)) as server:
        [worker] = server.workers
        for _ in range(20):
            assert server.client.post("/v1/generate", json={"inputs": "a b c"}).status_code == 200
        answer = server.client.post("/v1/generate", json={**SLOW, "timeout": 1})
        assert answer.status_code == 504
        with server.client.stream("POST", "/v1/generate/stream", json={"inputs": "a b c"}) as stream:
            assert "event: done" in stream.read().decode()
        assert server.workers == [worker]
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
