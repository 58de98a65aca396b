"""`antiphon serve --engine ray`: behaves as one server, and loses nothing when a replica is killed under load."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from running_server import RunningServer, serving

import antiphon
from antiphon.cli.main import run
from antiphon.errors import UserError
from antiphon.serve.ray_engine import AppReplica, problems_of
from antiphon.serve.serve_settings import ServeSettings, served_models

KEY = "a-key-of-the-tests"
PATIENCE = 90.0  # seconds after which something that should have happened counts as missing
REQUESTS, CLIENTS = 240, 6
SHORT: dict[str, Any] = {"beam": 2}
LONG: dict[str, Any] = {"beam": 8, "min_length": 90, "max_length": 100}  # a tenth of a second or more
SLOW: dict[str, Any] = {"beam": 8, "min_length": 900, "max_length": 1000}  # a second or more
ENDLESS: dict[str, Any] = {"beam": 8, "min_length": 39_000, "max_length": 40_000}
QUEUE = 4  # inputs of a replica


def until(found: Callable[[], Any]) -> Any:  # noqa: ANN401 (whatever is found)
    """Wait for a result that is true."""
    end = time.monotonic() + PATIENCE
    while not (result := found()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return result


def processes_in(folder: str) -> list[int]:
    """Processes whose environment has this folder of Ray's."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"RAY_TMPDIR={folder}\0".encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


@pytest.fixture(scope="module")
def ray_folder() -> Iterator[str]:
    """A folder for Ray's files, with a short name, as sockets need; what still runs at the end is killed."""
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        yield folder
        with contextlib.suppress(AssertionError):
            until(lambda: not processes_in(folder))
        for number in processes_in(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster(bahdanau_run: str, ray_folder: str) -> Iterator[RunningServer]:
    """A server with two replicas on a cluster of its own."""
    options = ["--engine", "ray", "--replicas", "2", "--threads", "1", "--api-key", KEY, "--max-bytes", "100000"]
    options += ["--queue", str(QUEUE), "--timeout", "300"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", ray_folder)
        patch.delenv("RAY_ADDRESS", raising=False)
        with serving(bahdanau_run, options=options) as running:
            running.client.headers["Authorization"] = f"Bearer {KEY}"
            yield running


def busy_replicas(client: httpx.Client) -> dict[int, float]:
    """The inputs that each replica has, by the id of its process."""
    text = client.get("/metrics").text
    found = re.findall(r'^antiphon_queue_inputs\{.*replica="[^"]*-(\d+)"\} (\S+)$', text, re.MULTILINE)
    return {int(number): float(inputs) for number, inputs in found}


def kill_a_busy_replica(client: httpx.Client, least: int) -> None:
    """Kill the replica with the most inputs as soon as it has so many."""

    def busiest() -> int:
        inputs, number = max(((inputs, number) for number, inputs in busy_replicas(client).items()), default=(0, 0))
        return number if inputs >= least else 0

    os.kill(until(busiest), signal.SIGKILL)


def test_it_behaves_as_one_server(cluster: RunningServer, bahdanau_run: str) -> None:
    client, body = cluster.client, {"inputs": ["a b c", "", "h g f"]}
    wanted = [answer.text for answer in antiphon.load(bahdanau_run).generate(body["inputs"])]
    assert [one["text"] for one in client.post("/v1/generate", json=body).json()["outputs"]] == wanted
    ready = client.get("/readyz", headers={"Authorization": ""})
    assert ready.status_code == 200
    assert ready.json() == {"status": "ready", "models": {"bahdanau": "ready"}, "replicas": 2}
    assert client.get("/livez").json() == {"status": "alive"}
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["bahdanau"]
    assert len(busy_replicas(client)) == 2
    assert "<title>" in client.get("/").text
    stream = client.post("/v1/generate/stream", json={"inputs": "a b c"}).text
    assert re.findall(r"^event: (\w+)$", stream, re.MULTILINE)[-1] == "done"
    assert wanted[0] == "".join(re.findall(r'^data: \{"text":"(.*)"\}$', stream, re.MULTILINE))


@pytest.mark.parametrize(
    ("status", "code", "sent"),
    [
        (401, "no_api_key", {"headers": {"Authorization": ""}}),
        (401, "wrong_api_key", {"headers": {"Authorization": "Bearer another-key"}}),
        (403, "wrong_host", {"headers": {"Host": "elsewhere.example"}}),
        (404, "unknown_model", {"json": {"inputs": "a", "model": "none"}}),
        (413, "too_large", {"json": {"inputs": "a " * 100_000}}),
        (422, "invalid_value", {"json": {"inputs": "a", "beam": 0}}),
    ],
)
def test_refusals_are_those_of_one_process(
    cluster: RunningServer, status: int, code: str, sent: dict[str, Any]
) -> None:
    answer = cluster.client.post("/v1/generate", **{"json": {"inputs": "a"}, **sent})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    if sent.get("headers", {}).get("Authorization") is not None:
        assert cluster.client.get("/metrics", headers=sent["headers"]).status_code == status


def test_overload_is_refused_and_a_client_that_leaves_makes_room(cluster: RunningServer) -> None:
    """Both replicas are full. More requests wait there, or at the driver, or are refused at once, each with 429."""
    client = cluster.client
    body = json.dumps({"inputs": ["a b"] * QUEUE, **ENDLESS}).encode()
    head = f"Host: localhost\r\nX-API-Key: {KEY}\r\nContent-Length: {len(body)}"
    with contextlib.ExitStack() as leaving:

        def fill() -> bool:
            """Ray may choose one replica twice; the request that finds no room there is refused after a while."""
            connection = leaving.enter_context(socket.create_connection(("127.0.0.1", client.base_url.port or 0)))
            connection.sendall(f"POST /v1/generate HTTP/1.1\r\n{head}\r\n\r\n".encode() + body)
            time.sleep(1.0)
            return sum(busy_replicas(client).values()) == 2 * QUEUE

        until(fill)
        with ThreadPoolExecutor(6 * QUEUE) as clients:
            asked = [clients.submit(client.post, "/v1/generate", json={"inputs": "a"}) for _ in range(6 * QUEUE)]
            refused = [one.result() for one in asked]
        assert {(one.status_code, one.json()["error"]["code"]) for one in refused} == {(429, "queue_full")}
        assert all("Retry-After" in one.headers for one in refused)
        depths = {one.json()["error"].get("queue_depth") for one in refused}
        assert depths == {QUEUE, None}, "from replicas, and from the driver"
    until(lambda: not any(busy_replicas(client).values()))
    assert client.post("/v1/generate", json={"inputs": "a"}).status_code == 200


def test_a_replica_that_is_killed_under_load_loses_nothing(cluster: RunningServer, bahdanau_run: str) -> None:
    """Clients repeat what was refused, and nothing else: each request has one answer."""
    texts = [" ".join("abcdefgh"[number % 7 : number % 7 + 1 + number % 3]) for number in range(REQUESTS)]
    options = [LONG if number % 5 == 0 else SHORT for number in range(REQUESTS)]
    model = antiphon.load(bahdanau_run)
    wanted = {
        kind: dict(zip(texts, (one.text for one in model.generate(texts, **known)), strict=True))
        for kind, known in (("long", LONG), ("short", SHORT))
    }
    before = answered(cluster.client)
    answers: list[tuple[str, int, str]] = []
    refused: list[int] = []
    half = threading.Event()

    def ask(number: int) -> None:
        body = {"inputs": texts[number], **options[number]}
        while True:
            answer = cluster.client.post("/v1/generate", json=body, headers={"X-Request-ID": f"request-{number}"})
            if answer.status_code != 429:
                break
            refused.append(number)
            time.sleep(0.1)
        assert answer.status_code == 200, answer.text
        answers.append((answer.headers["X-Request-ID"], number, answer.json()["outputs"]["text"]))
        if len(answers) > REQUESTS // 4:
            half.set()

    with ThreadPoolExecutor(CLIENTS) as clients:
        asked = [clients.submit(ask, number) for number in range(REQUESTS)]
        assert half.wait(PATIENCE)
        kill_a_busy_replica(cluster.client, least=2)
        for one in asked:
            one.result()
    assert Counter(number for number, *_ in answers) == Counter(f"request-{number}" for number in range(REQUESTS))
    for name, number, text in answers:
        assert name == f"request-{number}"
        assert text == wanted["long" if options[number] is LONG else "short"][texts[number]]
    assert answered(cluster.client) - before == REQUESTS
    again = re.findall(r"replica of request request-(\d+) has died; it begins again", cluster.log)
    assert again, "no request was at the replica that was killed"
    for number in again:  # what a replica had taken is not refused afterwards
        later = cluster.log.split(f"replica of request request-{number} has died")[-1]
        [status, *_] = re.findall(rf"POST /v1/generate (\d+) .* request-{number}$", later, re.MULTILINE)
        assert status == "200"
    assert len(refused) < REQUESTS


def answered(client: httpx.Client) -> int:
    """The requests for answers that the server has counted."""
    counted = r'^antiphon_requests_total\{route="/v1/generate",status="200"\} (\S+)$'
    found = re.search(counted, client.get("/metrics").text, re.MULTILINE)
    return int(float(found[1])) if found else 0


def test_another_replica_takes_the_place(cluster: RunningServer) -> None:
    until(lambda: cluster.client.get("/readyz").json()["replicas"] == 2)


def test_a_stream_says_that_its_replica_has_died(cluster: RunningServer) -> None:
    """It cannot begin again, because its beginning was read."""
    with cluster.client.stream("POST", "/v1/generate/stream", json={"inputs": "a", **SLOW, "search": True}) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("event: ")
        kill_a_busy_replica(cluster.client, least=1)
        *_, event, data, _ = lines
    assert event == "event: error"
    assert '"code":"replica_died"' in data


def test_sigterm_answers_what_was_accepted_and_ends_the_cluster(cluster: RunningServer, ray_folder: str) -> None:
    with ThreadPoolExecutor(1) as clients:
        asked = clients.submit(cluster.client.post, "/v1/generate", json={"inputs": "a", **SLOW})
        until(lambda: max(busy_replicas(cluster.client).values(), default=0.0))
        cluster.process.send_signal(signal.SIGTERM)
        cluster.wait_for("stopping: ")
        assert cluster.client.get("/readyz").json()["status"] == "draining"
        assert cluster.client.post("/v1/generate", json={"inputs": "a"}).status_code == 503
        assert asked.result().status_code == 200
    assert cluster.process.wait(PATIENCE) == 0
    until(lambda: not processes_in(ray_folder))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "RAY_ADDRESS=127.0.0.1:1: cannot be reached"),
        ("ray://127.0.0.1:1", "an address of Ray's client, which cannot stream"),
    ],
)
def test_an_address_without_a_cluster(
    address: str, message: str, bahdanau_run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert run(["serve", bahdanau_run, "--port", "0", "--engine", "ray"]) == 2
    assert message in capsys.readouterr().err


def test_replicas_need_ray(bahdanau_run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", bahdanau_run, "--replicas", "2"]) == 2
    assert "add --engine ray" in capsys.readouterr().err


def test_without_ray_it_says_what_to_install(bahdanau_run: str) -> None:
    program = "import sys; sys.modules['ray'] = None; from antiphon.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", bahdanau_run, "--port", "0", "--engine", "ray"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert "run: pip install 'antiphon[ray]'" in ended.stderr
    assert ended.returncode == 2


def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    """The constructor of a replica fails as in Ray, which hands on the text of the traceback."""
    settings = ServeSettings(models=served_models([tmp_path / "none"], ensemble=False, languages=[]))

    async def begin() -> None:
        replica = AppReplica.__new__(AppReplica)
        await replica.__init__(settings)  # type: ignore[misc]

    with pytest.raises(UserError) as raised:
        asyncio.run(begin())
    message = (
        f"The deployment failed to start 2 times in a row. Error:\n{''.join(traceback.format_exception(raised.value))}"
    )
    assert problems_of([message]) == [
        f"{tmp_path}/none: no such folder; `antiphon train CONFIG --out {tmp_path}/none` makes one"
    ]
