"""Overload, deadlines, departures and sizes: the right code, a way out, and nothing computed for nobody."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from running_server import SLOW, RunningServer, eventually, post, serving

import antiphon
from antiphon.serve.server import LEAST_CROWD

OPTIONS = ["--queue", "2", "--wait", "0.3", "--timeout", "30", "--threads", "1", "--max-characters", "1000"]


@pytest.fixture(scope="module")
def narrow(bahdanau_run: str) -> Iterator[RunningServer]:
    """A server with one lane and room for two inputs."""
    with serving(bahdanau_run, options=OPTIONS) as running:
        yield running


@pytest.fixture
def full(narrow: RunningServer) -> Iterator[RunningServer]:
    """The same with a full queue, whose clients leave at the end."""
    sockets = [narrow.connect() for _ in range(2)]
    for sock in sockets:
        sock.sendall(post("/v1/generate", json.dumps(SLOW).encode()))
    eventually(lambda: narrow.queued == 2)
    yield narrow
    for sock in sockets:
        sock.close()
    eventually(lambda: narrow.queued == 0)


def assert_answers(server: RunningServer) -> None:
    """The lane is free: it answers at once what needs it."""
    answer = server.client.post("/v1/generate", json={"inputs": "a b c", "timeout": 20})
    assert answer.status_code == 200, answer.text


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """The error in an answer of /v1; it has a code and the id of the request."""
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"]
    assert error["message"]
    assert error["request_id"] == answer.headers["X-Request-ID"]
    return error


def test_a_full_queue_refuses_after_a_short_wait_and_says_when_to_come_back(full: RunningServer) -> None:
    answer = full.client.post("/v1/generate", json={"inputs": "a"})
    assert answer.status_code == 429
    error = error_of(answer)
    assert (error["code"], error["queue_depth"], error["limit"]) == ("queue_full", 2, 2)
    assert int(answer.headers["Retry-After"]) >= 1


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("/v2/translate", {"text": ["a"], "target_lang": "DE"}, "message"),
        ("/translate", {"q": "a", "source": "en", "target": "de"}, "error"),
        ("/v1/completions", {"model": "bahdanau", "prompt": "a"}, "error"),
        ("/v1/generate/stream", {"inputs": "a"}, "error"),
        ("/v1/score", {"inputs": "a", "targets": "K"}, "error"),
    ],
)
def test_every_protocol_says_it_in_its_shape(full: RunningServer, path: str, body: dict[str, Any], key: str) -> None:
    answer = full.client.post(path, json=body)
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    assert "2 inputs to answer" in str(answer.json()[key])
    assert answer.headers["X-Request-ID"] in answer.text


def test_who_waits_for_room_gets_it(narrow: RunningServer) -> None:
    """Ten clients with a queue of two: each is answered, or refused with 429; none is lost."""
    text = "a b c d e f g h"

    def ask(_: int) -> httpx.Response:
        return httpx.post(f"{narrow.url}/v1/generate", json={"inputs": text, "beam": 4, "max_length": 60}, timeout=60)

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(ask, range(60)))
    assert {answer.status_code for answer in answers} <= {200, 429}
    good = [answer for answer in answers if answer.status_code == 200]
    assert len(good) >= 10
    assert len({answer.json()["outputs"]["text"] for answer in good}) == 1


def test_a_crowd_is_refused_before_it_is_read(bahdanau_run: str) -> None:
    """Beyond 64 requests nobody waits for room, however long --wait is; the page and the probes still answer."""
    with serving(bahdanau_run, options=["--queue", "1", "--wait", "60", "--threads", "1"]) as server:
        sockets = [server.connect() for _ in range(LEAST_CROWD)]
        for sock in sockets:
            sock.sendall(post("/v1/generate", json.dumps(SLOW).encode()))

        def is_refused() -> bool:
            try:
                answer = server.client.post("/v1/generate", json={"inputs": "a"}, timeout=1.0)
            except httpx.ReadTimeout:  # not all of the others have come yet
                return False
            assert answer.status_code == 429
            error = error_of(answer)
            assert (error["code"], error["queue_depth"]) == ("queue_full", LEAST_CROWD)
            return True

        eventually(is_refused)
        assert server.client.get("/livez").status_code == server.client.get("/").status_code == 200
        for sock in sockets:
            sock.close()
        eventually(lambda: server.queued == 0)
        assert_answers(server)


def test_a_deadline_ends_the_work(narrow: RunningServer) -> None:
    answer = narrow.client.post("/v1/generate", json={**SLOW, "timeout": 0.5})
    assert answer.status_code == 504
    error = error_of(answer)
    assert (error["code"], error["param"], error["limit"]) == ("deadline", "timeout", 0.5)
    assert narrow.queued == 0
    assert_answers(narrow)  # the lane does not go on with what nobody waits for


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/generate", SLOW),
        ("/v1/generate", {"inputs": "a b c", "min_length": 100_000, "max_length": 100_000, "sample": True}),
        ("/v1/generate", {**SLOW, "beam": 4}),
        ("/v1/generate", {**SLOW, "inputs": ["a", "b", "c d"]}),
        ("/v1/generate/stream", {**SLOW, "beam": 1}),
        ("/v1/generate/stream", {**SLOW, "diversity": 0.5, "beam": 4, "groups": 2}),  # its first event is its last
        ("/v1/search", {**SLOW, "min_length": 20_000, "max_length": 20_000}),
    ],
)
def test_a_client_that_leaves_takes_its_work_along(narrow: RunningServer, path: str, body: dict[str, Any]) -> None:
    with narrow.connect() as sock:
        sock.sendall(post(path, json.dumps(body).encode()))
        eventually(lambda: narrow.queued > 0)
    eventually(lambda: narrow.queued == 0)
    assert_answers(narrow)


def test_a_client_that_leaves_while_it_waits_for_room_frees_its_place(full: RunningServer) -> None:
    with full.connect() as sock:
        sock.sendall(post("/v1/generate", b'{"inputs": "a"}'))
    assert full.client.post("/v1/generate", json={"inputs": "a"}).status_code == 429


def test_many_clients_at_once_get_what_generate_says(narrow: RunningServer, bahdanau_run: str) -> None:
    """Without refusals: each comes again when it is told to."""
    texts = [" ".join("abcdefgh"[(3 * row + place) % 8] for place in range(1 + row % 9)) for row in range(24)]
    wanted = antiphon.load(bahdanau_run).generate(texts, beam=4)
    found: dict[int, Any] = {}

    def client(first: int) -> None:
        with httpx.Client(base_url=narrow.url, timeout=60) as own:
            for row in range(first, len(texts), 6):
                while (answer := own.post("/v1/generate", json={"inputs": texts[row], "beam": 4})).status_code == 429:
                    pass
                found[row] = answer.json()["outputs"]

    threads = [threading.Thread(target=client, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [found[row]["text"] for row in range(len(texts))] == [one.text for one in wanted]
    scores = [found[row]["score"] for row in range(len(texts))]
    assert scores == pytest.approx([one.score for one in wanted], abs=1e-5)


LARGE: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/generate", {"inputs": ["a"] * 129}, "inputs"),
    ("/v1/generate", {"inputs": ["a", "b" * 1001]}, "inputs[1] in characters"),
    ("/v1/generate", {"inputs": {"text": "b" * 1001}}, "inputs[0] in characters"),
    ("/v1/generate", {"inputs": "a", "prefix": "K " * 501}, "prefix in characters"),
    ("/v1/generate", {"inputs": "a", "beam": 9, "n_best": 9, "max_length": 100_000}, "beam"),
    ("/v1/generate", {"inputs": "a", "sample": True, "mbr": "chrf", "samples": 257}, "samples"),
    ("/v1/generate", {"inputs": ["a b"] * 100, "max_length": 100_000, "return": ["attention"]}, "return"),
    ("/v1/generate", {"inputs": ["a b"] * 100, "max_length": 1000, "return": ["tree"]}, "max_length"),
    ("/v1/search", {"inputs": "a", "max_length": 100_000}, "max_length"),
    ("/v1/generate/stream", {"inputs": "a", "max_length": 100_000, "search": True}, "max_length"),
    ("/v1/score", {"inputs": "a", "targets": "K" * 1001}, "targets[0] in characters"),
    ("/v1/score", {"inputs": ["a"] * 129, "targets": ["K"] * 129}, "inputs"),
    ("/v1/alternatives", {"inputs": "a", "position": 0, "answer": "K " * 501}, "answer in characters"),
    ("/v1/explain/step", {"inputs": "a", "position": 0, "answer": [4] * 1001}, "answer in tokens"),
    ("/v1/explain/step", {"inputs": "a" * 1001, "position": 0}, "inputs[0] in characters"),
    ("/v1/map", {"inputs": ["a"] * 129}, "inputs"),
    ("/v1/completions", {"prompt": ["a"] * 129}, "prompt"),
    ("/v1/completions", {"prompt": "a" * 1001}, "inputs[0] in characters"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 1001}]}, "inputs[0] in characters"),
    ("/v1/generate", {"inputs": "a", "forbid": ["K"] * 70_000}, "body"),
]


@pytest.mark.parametrize(("path", "body", "place"), LARGE)
def test_too_large_is_said_before_the_model_works(
    narrow: RunningServer, path: str, body: dict[str, Any], place: str
) -> None:
    before = narrow.metric('antiphon_batch_inputs_count{model="bahdanau"}')
    answer = narrow.client.post(path, json=body)
    assert answer.status_code == 413, answer.text
    error = error_of(answer)
    assert error["code"] == "too_large"
    assert error["message"].startswith(place)
    assert narrow.metric('antiphon_batch_inputs_count{model="bahdanau"}') == before


def test_an_explained_answer_has_a_length(server: RunningServer) -> None:
    """The cap on its tokens, which is lower than that on the characters of a usual server."""
    answer = server.client.post("/v1/explain/step", json={"inputs": "a", "position": 0, "answer": [4] * 2001})
    assert answer.status_code == 413
    assert error_of(answer)["limit"] == 2000


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("/v2/translate", {"text": ["a"] * 129, "target_lang": "DE"}, "message"),  # 413 is unexpected to its client
        ("/translate", {"q": "a" * 1001, "source": "en", "target": "de"}, "error"),
    ],
)
def test_the_other_protocols_too(narrow: RunningServer, path: str, body: dict[str, Any], key: str) -> None:
    answer = narrow.client.post(path, json=body)
    assert answer.status_code in (400, 413)
    assert "more than this server takes at once" in answer.json()[key]


REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("POST", "/v1/generate", {"content": b"{"}, 400, "invalid_json"),
    ("POST", "/v1/generate", {"content": b"\xff"}, 400, "invalid_json"),
    ("POST", "/v1/generate", {"content": b"[1]"}, 400, "invalid_json"),
    ("POST", "/v1/generate", {"content": b"[" * 100_000}, 400, "invalid_json"),
    ("POST", "/v1/generate", {"content": b'{"inputs": ' + b"9" * 100_000 + b"}"}, 400, "invalid_json"),
    ("POST", "/v1/generate", {"json": {"inputs": "a", "model": "b"}}, 404, "unknown_model"),
    ("GET", "/v1/nothing", {}, 404, "unknown_path"),
    ("GET", "/v1/generate", {}, 405, "wrong_method"),
    ("POST", "/v1/generate", {"content": b"a", "headers": {"Content-Type": "text/csv"}}, 415, "wrong_content_type"),
    ("POST", "/v1/generate", {"json": {}}, 422, "invalid_value"),
    ("POST", "/v1/generate", {"json": {"inputs": "a", "beam": 0}}, 422, "invalid_value"),
    ("GET", "/info?" + "&".join(f"f{n}" for n in range(300)), {}, 413, "too_large"),
]


@pytest.mark.parametrize(("method", "path", "request_", "status", "code"), REFUSED)
def test_every_error_has_a_code_and_the_id_of_the_request(
    narrow: RunningServer, method: str, path: str, request_: dict[str, Any], status: int, code: str
) -> None:
    answer = narrow.client.request(method, path, **request_)
    assert answer.status_code == status, answer.text
    assert error_of(answer)["code"] == code


@pytest.mark.parametrize(("count", "named"), [(10, 10), (900, 20), (30_000, 1)])
def test_many_wrong_fields_cost_little_and_twenty_are_named(narrow: RunningServer, count: int, named: int) -> None:
    answer = narrow.client.post("/v1/generate", json={"inputs": "a", **{f"field {n}": n for n in range(count)}})
    assert answer.status_code == 422
    assert len(error_of(answer)["problems"]) == named


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "utf-16", "utf-7"])
def test_a_form_in_another_encoding_is_refused(narrow: RunningServer, charset: str) -> None:
    """Python knows some that take the square of the length, and some whose text is no Unicode."""
    part = b'--x\r\nContent-Disposition: form-data; name="inputs"\r\n\r\n\\ud800' + b"a" * 200_000 + b"\r\n--x--\r\n"
    kind = f"multipart/form-data; boundary=x; charset={charset}"
    answer = narrow.client.post("/v1/generate", content=part, headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert error_of(answer)["code"] == "wrong_charset"


@pytest.mark.parametrize("text", ["%" + "0" * 999, "{a{b}" * 199, "<x ><x > " * 100, "http://." * 120])
def test_no_text_makes_the_search_for_placeholders_slow(narrow: RunningServer, text: str) -> None:
    body = {"inputs": [text] * 64, "protect": True, "glossary": {"-a" * 90 + str(n): "K" for n in range(64)}}
    assert narrow.client.post("/v1/generate", json=body).status_code == 200


def test_a_file_that_is_none_costs_no_more_than_its_bytes(narrow: RunningServer) -> None:
    answer = narrow.client.post("/v1/generate", json={"inputs": base64.b64encode(b"a" * 5000).decode()})
    assert answer.status_code == 413
