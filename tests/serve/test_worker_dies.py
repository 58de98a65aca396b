"""The process of a model dies: the server says so, starts it again, and loses no request in silence."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from running_server import SLOW, STARTS, RunningServer, eventually, post, serving, with_code
from tiny_generators import tiny_folder

import antiphon

LONG = {"inputs": "a b c", "min_length": 1500, "max_length": 1500, "beam": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that the tests may spoil."""
    return Path(tiny_folder("bahdanau", tmp_path_factory.mktemp("mortal") / "bahdanau"))


@pytest.fixture(scope="module")
def mortal(run: Path) -> Iterator[RunningServer]:
    """A server whose model is killed."""
    with serving(run, options=["--threads", "1", "--wait", "1"]) as running:
        yield running


def kill(server: RunningServer) -> None:
    """End the process of the model, and wait until the server says so."""
    [worker] = server.workers
    os.kill(worker, signal.SIGKILL)
    server.wait_for(r"bahdanau: its process has ended \(signal 9\); it is started again")


def ready(server: RunningServer) -> bool:
    """The model answers."""
    return server.client.get("/readyz").status_code == 200


def test_a_killed_model_is_started_again_and_what_it_worked_at_is_answered(mortal: RunningServer, run: Path) -> None:
    before = mortal.metric('antiphon_model_restarts_total{model="bahdanau"}')
    bodies = [LONG, *({"inputs": text} for text in ("a b c", "d", "", "e f g h"))]
    with ThreadPoolExecutor(len(bodies)) as pool:
        url = f"{mortal.url}/v1/generate"
        answers = [pool.submit(httpx.post, url, json=body, timeout=120) for body in bodies]
        eventually(lambda: mortal.queued > 0)
        kill(mortal)
        found = [answer.result(120) for answer in answers]
    assert [answer.status_code for answer in found] == [200] * len(bodies)
    wanted = antiphon.load(str(run)).generate(["a b c", "d", "", "e f g h"])
    assert [answer.json()["outputs"]["text"] for answer in found[1:]] == [one.text for one in wanted]
    assert mortal.metric('antiphon_model_restarts_total{model="bahdanau"}') == before + 1
    assert mortal.queued == 0


def test_a_stream_that_has_begun_ends_with_an_error(mortal: RunningServer) -> None:
    """It cannot begin again: its first words are already there."""
    eventually(lambda: ready(mortal))
    body = {**LONG, "search": True}
    with mortal.client.stream("POST", "/v1/generate/stream", json=body) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("event: ")
        kill(mortal)
        rest = list(lines)
    assert rest[-3] == "event: error"
    error = json.loads(rest[-2].removeprefix("data: "))["error"]
    assert (error["code"], error["request_id"]) == ("worker_died", answer.headers["X-Request-ID"])


def test_a_request_that_takes_two_processes_with_it_is_refused(mortal: RunningServer) -> None:
    eventually(lambda: ready(mortal))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(httpx.post, f"{mortal.url}/v1/generate", json=SLOW, timeout=120)
        for _ in range(2):
            eventually(lambda: mortal.queued > 0 and ready(mortal))
            kill(mortal)
        found = answer.result(120)
    assert (found.status_code, found.json()["error"]["code"]) == (503, "worker_died")
    assert int(found.headers["Retry-After"]) >= 1


def test_a_model_that_is_stopped_for_a_while_is_waited_for_and_not_beyond_the_deadline(mortal: RunningServer) -> None:
    eventually(lambda: ready(mortal))
    [worker] = mortal.workers
    os.kill(worker, signal.SIGSTOP)
    try:
        large = {"inputs": ["a b c d e f g h " * 1000] * 64, "timeout": 0.5}  # more than its pipe holds
        answer = mortal.client.post("/v1/generate", json=large)
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline")
    finally:
        os.kill(worker, signal.SIGCONT)
    assert mortal.client.post("/v1/generate", json={"inputs": "a"}).status_code == 200


def test_a_model_that_cannot_come_back_is_told_and_comes_back_when_it_can(mortal: RunningServer, run: Path) -> None:
    """Without its weights the process ends again and again; the server lives on and says 503."""
    eventually(lambda: ready(mortal))
    weights, away = run / "model.safetensors", run / "away"
    weights.rename(away)
    try:
        kill(mortal)
        mortal.wait_for("model.safetensors")  # the reason
        answer = mortal.client.post("/v1/generate", json={"inputs": "a"})
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] in ("model_failed", "loading")
        assert int(answer.headers["Retry-After"]) >= 1
        assert mortal.client.get("/livez").status_code == 200
        assert mortal.client.get("/readyz").json() == {"status": "loading", "models": {"bahdanau": "loading"}}
    finally:
        away.rename(weights)
    eventually(lambda: ready(mortal), STARTS)
    assert mortal.client.post("/v1/generate", json={"inputs": "a"}).status_code == 200


def test_requests_under_load_are_answered_or_refused(mortal: RunningServer) -> None:
    """The model is killed while six clients are at work."""
    eventually(lambda: ready(mortal))
    wanted = mortal.client.post("/v1/generate", json={"inputs": "a b c d"}).json()["outputs"]["text"]

    def ask(_: int) -> httpx.Response:
        return httpx.post(f"{mortal.url}/v1/generate", json={"inputs": ["a b c d"] * 3}, timeout=120)

    with ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(ask, number) for number in range(100)]
        eventually(lambda: sum(answer.done() for answer in answers) >= 30)
        kill(mortal)
        found = [answer.result(120) for answer in answers]
    assert {answer.status_code for answer in found} <= {200, 503}
    good = [answer for answer in found if answer.status_code == 200]
    assert len(good) >= 30
    assert all(output["text"] == wanted for answer in good for output in answer.json()["outputs"])
    assert all("Retry-After" in answer.headers for answer in found if answer.status_code == 503)
    assert mortal.queued == 0


BROKEN = """
import sys
if "antiphon.serve.worker" in sys.orig_argv:
    import antiphon.inference.generator as generator

    def answer(self, texts, pipeline):
        raise ValueError(f"cannot answer {texts[0].parts[0].text}")

    generator.Generator.answer = answer
"""
DEAD = """
import os, sys
if "antiphon.serve.worker" in sys.orig_argv:
    os._exit(7)
"""


def test_a_bug_is_answered_with_its_id_alone(bahdanau_run: str, tmp_path: Path) -> None:
    secret = "a b c d e f g h"
    with serving(bahdanau_run, environment=with_code(tmp_path, BROKEN)) as server:
        for path, body in (
            ("/v1/generate", {"inputs": secret}),
            ("/v2/translate", {"text": [secret], "target_lang": "DE"}),
            ("/translate", {"q": secret, "source": "en", "target": "de"}),
            ("/v1/completions", {"prompt": secret}),
        ):
            answer = server.client.post(path, json=body, headers={"X-Request-ID": "the-request-1"})
            assert answer.status_code == 500
            assert answer.headers["X-Request-ID"] == "the-request-1"
            assert "the-request-1" in answer.text
            assert secret not in answer.text
            assert "ValueError" not in answer.text
            server.wait_for("ValueError, request the-request-1")
        with server.connect() as sock:  # an unexpected answer does not end the server
            sock.sendall(post("/v1/generate", b'{"inputs": ""}'))
            assert b"HTTP/1.1 500" in sock.recv(1000)
        assert server.client.get("/readyz").status_code == 200
        server.stop()
        assert secret not in server.log
        assert "in answer" in server.log


def test_a_process_that_ends_while_it_loads_is_an_error_of_the_command(
    bahdanau_run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from antiphon.cli.main import run as run_command

    for name, value in with_code(tmp_path, DEAD).items():
        monkeypatch.setenv(name, value)
    assert run_command(["serve", bahdanau_run, "--port", "0"]) == 2
    assert "bahdanau: its process has ended (exit code 7) while it was loading" in capsys.readouterr().err
