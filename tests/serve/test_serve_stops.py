"""Signals: what was accepted is answered, what comes later is told so, and no process is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from running_server import SLOW, RunningServer, eventually, post, serving, with_code

LONG = {"inputs": "a b c", "min_length": 3000, "max_length": 3000, "beam": 1}  # a few seconds of work


@contextmanager
def asked(server: RunningServer, body: object) -> Iterator[Future[httpx.Response]]:
    """The answer to come; the request was accepted."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(httpx.post, f"{server.url}/v1/generate", json=body, timeout=120)
        eventually(lambda: server.queued > 0)
        yield answer


def gone(processes: list[int]) -> bool:
    """None of them runs any more."""
    return not any(
        psutil.pid_exists(number) and psutil.Process(number).status() != psutil.STATUS_ZOMBIE for number in processes
    )


def test_what_was_accepted_is_answered_and_readiness_drops_first(bahdanau_run: str) -> None:
    with serving(bahdanau_run) as server:
        workers = server.workers
        kept = httpx.Client(base_url=server.url)  # connections that are open before the signal
        assert kept.get("/readyz").status_code == 200
        with asked(server, LONG) as answer:
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("stopping: 1 request left to answer")
            ready = kept.get("/readyz")
            assert (ready.status_code, ready.json()["status"]) == (503, "draining")
            assert kept.get("/livez").status_code == 200
            refused = kept.post("/v1/generate", json={"inputs": "a"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
            assert refused.headers["Retry-After"]
            assert answer.result(120).status_code == 200
        assert server.process.wait(60) == 0
        kept.close()
    eventually(lambda: gone(workers))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_leaves_at_once(bahdanau_run: str, number: int, code: int) -> None:
    with serving(bahdanau_run) as server:
        workers = server.workers
        with server.connect() as sock:
            sock.sendall(post("/v1/generate", json.dumps(SLOW).encode()))
            eventually(lambda: server.queued > 0)
            server.process.send_signal(number)
            server.wait_for("stopping")
            server.process.send_signal(number)
            assert server.process.wait(60) == code
    eventually(lambda: gone(workers))


def test_what_takes_longer_than_the_drain_is_told_so(bahdanau_run: str) -> None:
    with serving(bahdanau_run, options=["--drain", "0.2"]) as server, asked(server, SLOW) as answer:
        idle = server.connect()
        half = server.connect()
        half.sendall(b"POST /v1/generate HTTP/1.1\r\nHost: local")
        server.process.send_signal(signal.SIGTERM)
        found = answer.result(60)
        assert (found.status_code, found.json()["error"]["code"]) == (503, "draining")
        assert server.process.wait(60) == 0
        idle.close()
        half.close()


def test_the_end_of_the_server_is_the_end_of_its_models(bahdanau_run: str) -> None:
    with serving(bahdanau_run) as server:
        workers = server.workers
        with server.connect() as sock:
            sock.sendall(post("/v1/generate", json.dumps(SLOW).encode()))
            eventually(lambda: server.queued > 0)
            server.process.kill()
            server.process.wait(60)
        eventually(lambda: gone(workers))


def test_a_server_that_loads_says_so_and_can_be_stopped(bahdanau_run: str, tmp_path: Path) -> None:
    """The worker is held up before it loads: the server lives, is not ready, refuses with 503, and ends on SIGTERM."""
    asleep = "import sys, time\nif 'antiphon.serve.worker' in sys.orig_argv:\n    time.sleep(120)\n"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "antiphon.cli.main", "serve", bahdanau_run, "--port", str(port), "--wait", "0.1"]
    environment = {**os.environ, **with_code(tmp_path, asleep)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}")

        def answers() -> bool:
            try:
                return client.get("/livez").status_code == 200
            except httpx.TransportError:
                return False

        eventually(answers, 120)
        assert (client.get("/readyz").status_code, client.get("/readyz").json()["status"]) == (503, "loading")
        for body in ({"inputs": "a"}, {"inputs": "a" * 50_000}):  # which may be a picture
            refused = client.post("/v1/generate", json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "loading")
            assert int(refused.headers["Retry-After"]) >= 1
        assert client.get("/info").status_code == 200
        client.close()
        [worker] = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        eventually(lambda: gone([worker.pid]))
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_signals_under_load_lose_no_answer(bahdanau_run: str) -> None:
    """Eight clients at work: every request that the server says it has answered or refused has got there."""
    with serving(bahdanau_run) as server:
        statuses: list[int] = []
        stop = threading.Event()

        def client() -> None:
            with httpx.Client(base_url=server.url, timeout=60) as own:
                while not stop.is_set():
                    try:
                        statuses.append(own.post("/v1/generate", json={"inputs": ["a b c", "d e"]}).status_code)
                    except httpx.TransportError:
                        return  # the server has ended, and has read nothing of this request

        threads = [threading.Thread(target=client) for _ in range(8)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(statuses) > 100)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        stop.set()
        for thread in threads:
            thread.join(60)
        server.stop()  # reads the log to its end
        logged = [int(status) for status in re.findall(r"POST \S+ (\d+)", server.log)]
    assert sorted(statuses) == sorted(logged)
    assert set(statuses) <= {200, 503}
