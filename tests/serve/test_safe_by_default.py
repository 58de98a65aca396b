"""A server that was started without thought: only this machine reaches it, no page elsewhere, and no text gets out."""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from running_server import RunningServer, post, serving
from served_models import model_folder, png_bytes

from antiphon.cli.main import run as run_command
from antiphon.errors import UserError
from antiphon.serve import server as server_module
from antiphon.serve.refusals import Refusal
from antiphon.serve.serve_settings import ServedModel, ServeSettings
from antiphon.serve.server import Server

KEYS = ("first-key-of-two", "second-key-of-two")
PAGE = "https://page.example"


@pytest.fixture(scope="module")
def image_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that reads pictures."""
    return model_folder("image", tmp_path_factory.mktemp("safe") / "image")


@pytest.fixture(scope="module")
def guarded(bahdanau_run: str, image_run: str) -> Iterator[RunningServer]:
    """A server with two keys, a page that may call it, a name of its own, and two models."""
    options = [*(word for key in KEYS for word in ("--api-key", key)), "--cors", PAGE, "--allow-host", "models.example"]
    with serving(bahdanau_run, image_run, options=options) as running:
        yield running


def raw(server: RunningServer, data: bytes) -> bytes:
    """The answer to these bytes, until the server closes the connection."""
    with server.connect() as sock:
        sock.sendall(data)
        parts = []
        with contextlib.suppress(ConnectionResetError):  # it has closed without reading all
            while part := sock.recv(65536):
                parts.append(part)
        return b"".join(parts)


def status(answer: bytes) -> int:
    """The status of an answer in bytes."""
    return int(answer.split(b" ", 2)[1])


def test_it_listens_on_loopback_alone(server: RunningServer) -> None:
    ports = [one.laddr for one in psutil.Process(server.process.pid).net_connections() if one.status == "LISTEN"]
    assert [address.ip for address in ports] == ["127.0.0.1"]


EVERYWHERE = "0.0.0.0"  # noqa: S104 - what the server must not do unasked


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.0.2.1", "server.example", ""])
def test_another_address_needs_a_key_or_full_words(
    bahdanau_run: str, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["serve", bahdanau_run, "--host", host, "--port", "0"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"--host {host}: other machines could use this server; add --api-key KEY, or --insecure" in said


def test_full_words_or_a_key_are_enough() -> None:
    models = (ServedModel("one", (Path("run"),)),)
    for more in ({"insecure": True}, {"api_keys": KEYS}):
        assert not ServeSettings(models=models, host=EVERYWHERE, **more).loopback
    for host in ("127.0.0.1", "127.8.9.1", "::1", "localhost"):
        assert ServeSettings(models=models, host=host).loopback
    with pytest.raises(UserError, match="soon guessed"):
        ServeSettings(models=models, api_keys=("short",))
    with pytest.raises(UserError, match="--timeout"):
        ServeSettings(models=models, timeout=0)


def test_another_address_of_loopback_answers_to_its_own_name(bahdanau_run: str) -> None:
    with serving(bahdanau_run, options=["--host", "127.0.0.2"]) as running:
        assert running.url.startswith("http://127.0.0.2:")
        assert running.client.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost", 200),
        ("LOCALHOST:99", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:80", 200),
        ("127.9.9.9", 200),
        ("evil.example", 403),  # a name that its owner lets point here
        ("evil.example:8080", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.0.2.1", 403),
        ("", 403),
        ("localhost:80:80", 403),
        ("a@localhost", 403),
    ],
)
def test_the_host_header_must_name_this_machine(server: RunningServer, host: str, code: int) -> None:
    answer = raw(server, f"GET /livez HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert status(answer) == code
    assert (b"wrong_host" in answer) == (code == 403)


def test_a_request_without_a_host_is_refused(server: RunningServer) -> None:
    assert status(raw(server, b"GET /livez HTTP/1.0\r\n\r\n")) == 403
    assert status(raw(server, b"GET /livez HTTP/1.1\r\n\r\n")) == 400


def test_another_name_is_allowed_by_name(guarded: RunningServer) -> None:
    for host, code in (("models.example", 200), ("Models.Example:443", 200), ("other.example", 403)):
        assert guarded.client.get("/livez", headers={"Host": host}).status_code == code


@pytest.mark.parametrize(
    ("origin", "code"),
    [
        (None, 200),
        ("http://{own}", 200),
        ("https://evil.example", 403),
        ("http://localhost:1", 403),  # another program of this machine may show foreign pages
        ("null", 403),  # a page in a frame, or a file
        ("moz-extension://0a1b", 200),  # no page can say that
    ],
)
def test_a_page_of_another_host_cannot_make_the_browser_ask(
    server: RunningServer, origin: str | None, code: int
) -> None:
    """Its form needs no permission of CORS: it cannot read the answer, but the model would work."""
    own = httpx.URL(server.url).netloc.decode()
    headers = {} if origin is None else {"Origin": origin.format(own=own)}
    for content in ("application/json", "text/plain", "application/x-www-form-urlencoded"):
        answer = server.client.post(
            "/v1/generate", content=b'{"inputs": "a"}', headers={**headers, "Content-Type": content}
        )
        assert answer.status_code == code, answer.text
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_cors_is_off(server: RunningServer) -> None:
    answer = server.client.options(
        "/v1/generate", headers={"Origin": "http://other.example", "Access-Control-Request-Method": "POST"}
    )
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_cors_is_on_for_those_who_were_named(guarded: RunningServer) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"}
    preflight = guarded.client.options("/v1/generate", headers={"Origin": PAGE, **asked})
    assert preflight.status_code == 200
    assert preflight.headers["Access-Control-Allow-Origin"] == PAGE
    assert "authorization" in preflight.headers["Access-Control-Allow-Headers"].lower()
    assert "Access-Control-Allow-Credentials" not in preflight.headers
    answer = guarded.client.post(
        "/v1/generate",
        json={"inputs": "a", "model": "bahdanau"},
        headers={"Origin": PAGE, "Authorization": f"Bearer {KEYS[0]}"},
    )
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert "X-Request-ID" in answer.headers["Access-Control-Expose-Headers"]
    other = guarded.client.options("/v1/generate", headers={"Origin": "https://evil.example", **asked})
    assert other.status_code >= 400
    assert "Access-Control-Allow-Origin" not in other.headers


WAYS = ["bearer", "deepl", "header", "json", "form", "query"]


def with_key(way: str, key: str) -> dict[str, Any]:
    """The arguments of a request that sends a key in one of the ways."""
    body = {"q": "a", "source": "en", "target": "de"}
    arguments: dict[str, Any] = {
        "bearer": {"json": body, "headers": {"Authorization": f"Bearer {key}"}},
        "deepl": {"json": body, "headers": {"Authorization": f"DeepL-Auth-Key {key}"}},
        "header": {"json": body, "headers": {"X-API-Key": key}},
        "json": {"json": {**body, "api_key": key}},
        "form": {"data": {**body, "api_key": key}},
        "query": {"params": {**body, "api_key": key}},
    }[way]
    return arguments


@pytest.fixture(scope="module")
def keyed(bahdanau_run: str) -> Iterator[RunningServer]:
    """A server with one model and two keys."""
    with serving(bahdanau_run, options=[word for key in KEYS for word in ("--api-key", key)]) as running:
        yield running


@pytest.mark.parametrize("way", WAYS)
def test_a_key_opens_in_every_way(keyed: RunningServer, way: str) -> None:
    for key in KEYS:
        assert keyed.client.post("/translate", **with_key(way, key)).status_code == 200
    for key in ("a-wrong-key", KEYS[0][:-1], KEYS[0] + "x", KEYS[0].upper(), "schlüssel"):
        if way not in ("json", "form", "query") and not key.isascii():
            continue
        answer = keyed.client.post("/translate", **with_key(way, key))
        assert (answer.status_code, answer.json()["code"]) == (403, "wrong_api_key")
    answer = keyed.client.post("/translate", json=with_key("json", "")["json"])
    assert (answer.status_code, answer.json()["code"]) == (403, "no_api_key")


def test_every_route_but_those_of_health_and_the_description_needs_a_key(keyed: RunningServer) -> None:
    schema = keyed.client.get("/openapi.json").json()
    closed = [(method, path) for path, methods in schema["paths"].items() for method in methods]
    statuses = {
        (method, path): keyed.client.request(method, path.replace("{name}", "bahdanau")).status_code
        for method, path in closed
    }
    opened = {path for (_, path), code in statuses.items() if code not in (401, 403)}
    assert opened == {"/livez", "/readyz", "/health"}
    answer = keyed.client.post("/v1/generate", json={"inputs": "a"})
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_a_body_that_is_too_large_is_not_read_for_its_key(keyed: RunningServer) -> None:
    headers = {"Authorization": "Bearer a-wrong-key"}
    answer = raw(keyed, post("/v1/generate", b"", "Authorization: Bearer wrong", "Connection: close"))
    assert status(answer) == 401
    answer = keyed.client.post("/v1/generate", content=b"x" * (17 * 2**20), headers=headers)
    assert answer.status_code == 401


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time does not tell which key was nearly right, or how much of it."""
    compared: list[tuple[bytes, bytes]] = []
    original = hmac.compare_digest

    def compare(given: bytes, known: bytes) -> bool:
        compared.append((given, known))
        return original(given, known)

    monkeypatch.setattr(server_module.hmac, "compare_digest", compare)
    models = (ServedModel("one", (Path("run"),)),)
    checked = Server(ServeSettings(models=models, api_keys=KEYS), log=lambda _: None)
    for key in (*KEYS, "wrong", "f"):
        compared.clear()
        try:
            checked._check_key(key)
        except Refusal:
            assert key not in KEYS
        assert compared == [(key.encode(), known.encode()) for known in KEYS]


HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@pytest.mark.parametrize(
    ("method", "path", "arguments", "code"),
    [
        ("GET", "/livez", {}, 200),
        ("GET", "/docs", {}, 200),
        ("GET", "/metrics", {}, 200),
        ("POST", "/v1/generate", {"json": {"inputs": "a"}}, 200),
        ("POST", "/v1/generate/stream", {"json": {"inputs": "a"}}, 200),
        ("GET", "/nothing", {}, 404),
        ("GET", "/v1/generate", {}, 405),
        ("OPTIONS", "/v1/generate", {}, 405),
        ("POST", "/v1/generate", {"content": b"{"}, 400),
        ("POST", "/v1/generate", {"content": b"x" * (17 * 2**20)}, 413),
        ("POST", "/v2/translate", {"json": {}}, 400),
        ("GET", "/livez", {"headers": {"Host": "evil.example"}}, 403),
        ("GET", "/livez", {"headers": {"X-Long": "x" * 40_000}}, 431),
    ],
)
def test_every_answer_has_the_headers_that_keep_a_browser_in_bounds(
    server: RunningServer, method: str, path: str, arguments: dict[str, Any], code: int
) -> None:
    answer = server.client.request(method, path, **arguments)
    assert answer.status_code == code
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["X-Request-ID"])
    assert "Server" not in answer.headers


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # TLS
        (b"GET /livez HTTP/2.0\r\nHost: localhost\r\nConnection: close\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-\x00: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 600_000, 431),
    ],
)
def test_what_is_not_http_gets_an_error_with_code_id_and_headers(server: RunningServer, data: bytes, code: int) -> None:
    answer = raw(server, data)
    assert status(answer) == code
    head, _, body = answer.partition(b"\r\n\r\n")
    error = json.loads(body)["error"]
    assert error["code"] == "invalid_http"
    assert f"x-request-id: {error['request_id']}".encode() in head.lower()
    assert b"x-content-type-options: nosniff" in head.lower()


def test_the_id_of_a_client_is_kept_if_it_is_harmless(server: RunningServer) -> None:
    def number(given: str) -> str:
        return server.client.get("/livez", headers={"X-Request-ID": given}).headers["X-Request-ID"]

    assert number("order-17.b_2") == "order-17.b_2"
    for given in ("", "a b", "a;b", "x" * 65, "<b>"):
        assert re.fullmatch(r"[0-9a-f]{32}", number(given))


SECRET = "Geheimnis"


def test_logs_never_have_texts(bahdanau_run: str) -> None:
    """In bodies, forms, queries, paths, headers, methods, broken JSON, and what is no HTTP."""
    with serving(bahdanau_run, options=["--max-bytes", "5000"]) as running:
        client, texts = running.client, {"inputs": SECRET}
        client.post("/v1/generate", json=texts)
        client.post("/v1/generate/stream", json=texts)
        client.post("/v1/generate", json={"inputs": "a", "prefix": SECRET})
        client.post("/v1/generate", json={"inputs": "a", "beam": SECRET})
        client.post("/v1/generate", json={"inputs": "a", SECRET: 1})
        client.post("/v1/generate", json={"inputs": "a", "model": SECRET})
        client.post("/v1/generate", json={"inputs": "a", "glossary": {SECRET: SECRET}})
        client.post("/v1/generate", json={"inputs": SECRET * 2000})
        client.post("/v1/score", json={"inputs": "a", "targets": SECRET})
        client.post("/v1/explain/step", json={"inputs": "a", "position": 0, "answer": SECRET})
        client.post("/v1/generate", content=f'{{"inputs": "{SECRET}'.encode())
        client.post("/v1/generate", data=texts)
        client.post("/v1/generate", files={"inputs": (SECRET, SECRET.encode(), f"text/{SECRET}")})
        client.post("/v1/generate", content=SECRET, headers={"Content-Type": f"text/{SECRET}"})
        client.post("/translate", params={"q": SECRET, "source": "en", "target": SECRET[:5]})
        client.get(f"/{SECRET}", params={"q": SECRET})
        client.get(f"/v1/models/{SECRET}")
        client.request(SECRET, "/livez")
        client.get("/livez", headers={"X-Request-ID": f"{SECRET} x", "User-Agent": SECRET, "Host": SECRET})
        for data in (
            f"{SECRET}\r\n\r\n",
            f"GET /{SECRET} HTTP/9.9\r\nConnection: close\r\n\r\n",
            f"GET / HTTP/1.1\r\nHost: localhost\r\n{SECRET}\r\n\r\n",
            f"POST /v1/generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}\r\n",
        ):
            raw(running, data.encode())
        assert client.get("/livez").status_code == 200
        assert SECRET not in client.get("/metrics").text
        running.stop()
        log = running.log
    assert "POST /v1/generate 200" in log
    assert "Traceback" not in log
    assert SECRET.lower() not in log.lower()


def test_no_path_in_a_request_is_opened(guarded: RunningServer, image_run: str, tmp_path: Path) -> None:
    """A picture comes as its bytes; the path of one is no picture, and a path in a text is a text."""
    picture = tmp_path / "picture.png"
    picture.write_bytes(png_bytes())
    headers = {"Authorization": f"Bearer {KEYS[0]}"}

    def ask(model: str, inputs: object) -> httpx.Response:
        return guarded.client.post("/v1/generate", json={"inputs": inputs, "model": model}, headers=headers)

    good = ask("image", base64.b64encode(png_bytes()).decode())
    assert good.status_code == 200
    paths = [str(picture), f"file://{picture}", f"data:image/png;base64,{picture}", "/etc/hosts", "x" * 8]
    paths += [base64.b64encode(str(picture).encode()).decode(), f"http://127.0.0.1/{picture}"]
    for path in paths:
        for inputs in (path, {"0": path}, [path]):
            answer = ask("image", inputs)
            assert answer.status_code == 422, (path, answer.text)
            assert "antiphon-" not in answer.text  # the name of a file of ours
        assert ask("bahdanau", path).status_code == 200
    for model in (image_run, "../image", "/etc", "."):
        answer = ask(model, "a")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_model")


def test_no_route_loads_or_unloads_a_model(server: RunningServer) -> None:
    paths = server.client.get("/openapi.json").json()["paths"]
    assert not [path for path in paths if re.search(r"load|admin|config|file", path)]
    for path in ("/v1/models", "/v1/models/bahdanau"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert server.client.request(method, path).status_code == 405


def test_a_websocket_is_not_spoken(server: RunningServer) -> None:
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA==")
    lines = ["GET /livez HTTP/1.1", "Host: evil.example", *upgrade, "", ""]
    with server.connect() as sock:
        sock.sendall("\r\n".join(lines).encode())
        assert status(sock.recv(65536)) == 403


def test_the_packages_of_the_server_are_asked_for_by_name() -> None:
    """Without them the command says what to install, and the others work."""
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from antiphon.cli.main import run\nsys.exit(run(['serve', 'nowhere']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "pip install 'antiphon[serve]'" in ended.stderr
