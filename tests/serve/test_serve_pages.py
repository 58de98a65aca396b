"""What a server says of itself: /info, /docs, /metrics, the states, and the headers of every answer."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from busy_server import wait_until
from conftest import KEY
from running_server import RunningServer

import antiphon
from antiphon.serve.model_facts import weights_sha256
from antiphon.serve.serve_settings import ServeSettings

ROUTES = [
    "/info",
    "/docs",
    "/docs/style.css",
    "/openapi.json",
    "/livez",
    "/readyz",
    "/health",
    "/metrics",
    "/v1/models",
]


def test_info_has_limits_languages_versions_and_the_checksum_of_the_weights(
    translator: RunningServer, bahdanau_run: str, transformer_run: str
) -> None:
    found = translator.client.get("/info", headers={"X-API-Key": KEY}).json()
    assert found["version"] == antiphon.__version__
    usual = ServeSettings(models=())
    names = ("max_bytes", "max_inputs", "max_characters", "max_positions", "timeout")
    assert found["limits"] == {**{name: getattr(usual, name) for name in names}, "queue": 1, "wait": 0.1}
    first, second = found["models"]
    assert [one["languages"] for one in (first, second)] == [
        {"source": "en", "target": "de"}, {"source": "en", "target": "fr"}
    ]  # fmt: skip
    assert first["name"] == Path(bahdanau_run).name
    assert (first["ready"], first["engine"], first["kind"], first["attention"]) == (
        True,
        "torch",
        "encoder-decoder",
        True,
    )
    assert first["sources"] == [{"name": "text", "kind": "text", "tokens": "words"}]
    assert (first["target_tokens"], first["decoding"]["max_length"]) == (9, 6)
    assert first["versions"]["antiphon"] == antiphon.__version__
    assert [one["sha256"] for one in (first, second)] == [
        [weights_sha256(Path(run))] for run in (bahdanau_run, transformer_run)
    ]


def test_the_sources_of_a_model_are_named(assorted: RunningServer) -> None:
    models = {one["name"]: one for one in assorted.client.get("/info").json()["models"]}
    named = {name: [(one["name"], one["kind"]) for one in facts["sources"]] for name, facts in models.items()}
    assert named["several"] == [
        ("question", "text"), ("picture", "image"), ("sound", "audio"), ("array", "features")
    ]  # fmt: skip
    assert (named["rnn-lm"], named["image"]) == ([], [("image", "image")])


class Links(HTMLParser):
    """The addresses that a page fetches or points to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found += [str(value) for name, value in attributes if name in ("href", "src", "action", "data", "srcset")]


def test_the_page_of_the_api_needs_no_other_host(server: RunningServer) -> None:
    answer = server.client.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = Links()
    page.feed(answer.text)
    assert page.found == ["/docs/style.css", "/openapi.json"]
    assert not page.tags & {"script", "img", "iframe", "form", "object", "embed"}
    assert "style=" not in answer.text  # which the Content-Security-Policy would ignore
    style = server.client.get("/docs/style.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "url(" not in style.text
    assert "@import" not in style.text


def test_the_page_of_the_api_has_every_route_and_field(server: RunningServer) -> None:
    page = server.client.get("/docs").text
    schema = server.client.get("/openapi.json").json()
    assert schema["openapi"].startswith("3.")
    for path in schema["paths"]:
        assert path.replace("{", "{") in page
    for name in ("GenerateRequest", "StreamRequest", "ScoreRequest", "MapRequest", "LibreTranslate", "DeepLTranslate"):
        for field in schema["components"]["schemas"][name]["properties"]:
            assert f"<code>{field}</code>" in page


def test_metrics_count_what_was_done(server: RunningServer) -> None:
    def number(line: str) -> float:
        found = re.search(rf"^{re.escape(line)} (\S+)$", server.client.get("/metrics").text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    lines = {
        'antiphon_requests_total{route="/v1/generate",status="200"}': 2,
        'antiphon_requests_total{route="/v1/generate",status="422"}': 1,
        'antiphon_requests_total{route="/v1/models/{name}",status="404"}': 1,
        'antiphon_requests_total{route="unknown",status="404"}': 1,
        'antiphon_request_seconds_count{route="/v1/generate"}': 3,
        'antiphon_batch_inputs_sum{model="bahdanau"}': 4,
        'antiphon_model_restarts_total{model="bahdanau"}': 0,
    }
    before = {line: number(line) for line in lines}
    server.client.post("/v1/generate", json={"inputs": ["a", "b", "c"]})
    server.client.post("/v1/generate", json={"inputs": "a"})
    server.client.post("/v1/generate", json={"inputs": "a", "beam": 0})
    server.client.get("/v1/models/a-name-of-the-client's")
    server.client.get("/another-name-of-the-client's")
    wait_until(lambda: {line: number(line) - before[line] for line in lines} == lines)
    assert number('antiphon_model_ready{model="bahdanau"}') == 1
    assert number('antiphon_queue_inputs{model="bahdanau"}') == 0
    answer = server.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "client" not in answer.text


def test_states(server: RunningServer) -> None:
    assert server.client.get("/livez").json() == {"status": "alive"}
    for path in ("/readyz", "/health"):
        answer = server.client.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ready", "models": {"bahdanau": "ready"}})


@pytest.mark.parametrize("path", [*ROUTES, "/nothing", "/v1/generate"])
def test_every_answer_has_the_headers_of_a_careful_server(server: RunningServer, path: str) -> None:
    headers = server.client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["referrer-policy"] == "no-referrer"
    assert re.fullmatch("[0-9a-f]{32}", headers["x-request-id"])
    assert "server" not in headers


def test_probes_need_no_key_and_everything_with_facts_does(translator: RunningServer) -> None:
    for path in ("/livez", "/readyz", "/health"):
        assert translator.client.get(path).status_code == 200
    for path in ("/info", "/metrics", "/v1/models", "/v1/models/bahdanau"):
        assert translator.client.get(path).status_code == 401
        for headers in ({"X-API-Key": KEY}, {"Authorization": f"bearer {KEY}"}, {"Authorization": f"Bearer  {KEY}"}):
            assert translator.client.get(path, headers=headers).status_code == 200
