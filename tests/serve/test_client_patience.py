"""A server that is full, or whose models are loading, as each client meets it: 429 and 503 with the time to wait."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.error import HTTPError

import deepl
import httpx
import httpx2
import openai
import pytest
from busy_server import Busy, busy, loading, wait_until
from conftest import KEY
from deep_translator import LibreTranslator
from deep_translator.exceptions import ServerException, TooManyRequests
from deepl import http_client
from libretranslatepy import LibreTranslateAPI
from running_server import RunningServer

HEADERS = {"Authorization": f"Bearer {KEY}"}
NATIVE = {"inputs": "a b c", "model": "bahdanau"}
REQUESTS = {
    "/v1/generate": NATIVE,
    "/v1/generate/stream": NATIVE,
    "/v1/search": NATIVE,
    "/v1/completions": {"prompt": "a", "model": "bahdanau"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "model": "bahdanau", "stream": True},
    "/v2/translate": {"text": ["a"], "target_lang": "DE"},
    "/translate": {"q": "a", "source": "en", "target": "de"},
}


@pytest.fixture
def full(translator: RunningServer) -> Iterator[Busy]:
    with busy(translator, NATIVE, HEADERS) as held:
        yield held


@pytest.fixture
def quick_deepl(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client waits a second and more between its retries."""
    monkeypatch.setattr(http_client._BackoffTimer, "BACKOFF_INITIAL", 0.01)


def error_of(answer: httpx.Response) -> tuple[str, str]:
    """Code and message, which stand at another place in each protocol."""
    body = answer.json()
    if "message" in body:
        return body["detail"], body["message"]
    error = body["error"]
    return (error["code"], error["message"]) if isinstance(error, dict) else (body["code"], error)


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("path", REQUESTS)
def test_full_is_429_in_every_protocol(translator: RunningServer, path: str) -> None:
    answer = translator.client.post(path, json=REQUESTS[path], headers=HEADERS)
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert error_of(answer) == ("queue_full", "bahdanau has 1 input to answer; try again soon")
    if path.startswith("/v1/"):
        error = answer.json()["error"]
        assert (error["queue_depth"], error["limit"]) == (1, 1)


@pytest.mark.usefixtures("full")
def test_another_model_has_a_queue_of_its_own(translator: RunningServer) -> None:
    body = {**NATIVE, "model": "transformer", "timeout": 0.2}
    assert translator.client.post("/v1/generate", json=body, headers=HEADERS).status_code == 504


@pytest.mark.usefixtures("quick_deepl", "full")
def test_deepl_tries_six_times(translator: RunningServer) -> None:
    client = deepl.Translator(KEY, server_url=translator.url)
    before = requests_of(translator, "/v2/translate", 429)
    with pytest.raises(deepl.TooManyRequestsException, match="bahdanau has 1 input to answer"):
        client.translate_text("a", target_lang="DE")
    wait_until(lambda: requests_of(translator, "/v2/translate", 429) == before + 6)


def requests_of(server: RunningServer, route: str, status: int) -> float:
    """Answers of this route with this status, from /metrics."""
    start = f'antiphon_requests_total{{route="{route}",status="{status}"}} '
    lines = server.client.get("/metrics", headers=HEADERS).text.splitlines()
    return sum(float(line.removeprefix(start)) for line in lines if line.startswith(start))


def test_openai_comes_back_after_the_time_it_was_told(translator: RunningServer, full: Busy) -> None:
    statuses: list[int] = []

    def seen(answer: httpx2.Response) -> None:
        statuses.append(answer.status_code)
        full.go_on()

    with httpx2.Client(event_hooks={"response": [seen]}) as http:
        client = openai.OpenAI(base_url=f"{translator.url}/v1", api_key=KEY, max_retries=1, http_client=http)
        found = client.completions.create(model="bahdanau", prompt="a b c")
    assert statuses == [429, 200]
    assert len(found.choices) == 1


def test_openai_without_retries(full: Busy) -> None:
    with openai.OpenAI(base_url=f"{full.server.url}/v1", api_key=KEY, max_retries=0) as client:
        with pytest.raises(openai.RateLimitError) as caught:
            client.completions.create(model="bahdanau", prompt="a")
        assert (caught.value.code, caught.value.type) == ("queue_full", "invalid_request_error")


@pytest.mark.usefixtures("full")
def test_libretranslate_clients(translator: RunningServer) -> None:
    with pytest.raises(HTTPError) as caught:
        LibreTranslateAPI(translator.url, KEY).translate("a", "en", "de")
    with caught.value as error:
        assert (error.code, json.loads(error.read())["code"]) == (429, "queue_full")
    with pytest.raises((TooManyRequests, ServerException)):
        LibreTranslator(api_key=KEY, source="en", target="de", custom_url=f"{translator.url}/").translate("a")


@pytest.mark.usefixtures("quick_deepl")
def test_loading_is_503_for_every_client(translator: RunningServer) -> None:
    with loading(translator) as held:
        for path, body in REQUESTS.items():
            answer = translator.client.post(path, json=body, headers=HEADERS)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
            assert error_of(answer) == ("loading", "bahdanau is loading; try again soon")
        with pytest.raises(deepl.DeepLException, match="Service unavailable, message: bahdanau is loading") as caught:
            deepl.Translator(KEY, server_url=translator.url).translate_text("a", target_lang="DE")
        assert caught.value.should_retry
        with openai.OpenAI(base_url=f"{translator.url}/v1", api_key=KEY, max_retries=0) as client:
            with pytest.raises(openai.InternalServerError) as refused:
                client.completions.create(model="bahdanau", prompt="a")
            assert (refused.value.status_code, refused.value.code) == (503, "loading")
        assert [one["ready"] for one in translator.client.get("/info", headers=HEADERS).json()["models"]] == [False] * 2
        assert held.server.client.get("/livez").status_code == 200
    answer = translator.client.post("/translate", json=REQUESTS["/translate"], headers=HEADERS)
    assert answer.status_code == 200
