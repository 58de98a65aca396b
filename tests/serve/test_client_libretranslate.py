"""LibreTranslate's clients against a server: libretranslatepy, deep-translator, and the requests of Weblate."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.error import HTTPError

import httpx
import pytest
from conftest import KEY
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from libretranslatepy import LibreTranslateAPI
from running_server import RunningServer

import antiphon

TEXTS = ["a b c", "h g f e d", "a & b + c=d?", "a b"]


def refused(call: Callable[[], object]) -> tuple[int, dict[str, str]]:
    """Status and body of the error that urllib raises."""
    with pytest.raises(HTTPError) as caught:
        call()
    with caught.value as error:
        return error.code, json.loads(error.read())


@pytest.fixture
def client(translator: RunningServer) -> LibreTranslateAPI:
    return LibreTranslateAPI(translator.url, KEY)


@pytest.mark.parametrize(("language", "fixture"), [("de", "bahdanau_run"), ("fr", "transformer_run")])
def test_libretranslatepy_gets_the_answers_of_generate(
    client: LibreTranslateAPI, request: pytest.FixtureRequest, language: str, fixture: str
) -> None:
    """It sends forms, also in the body of a GET."""
    generator = antiphon.load(request.getfixturevalue(fixture))
    for text in TEXTS:
        assert client.translate(text, "en", language) == generator.generate(text).text
    assert client.translate("", "en", language) == ""


def test_libretranslatepy_lists_and_detects(client: LibreTranslateAPI) -> None:
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de", "fr"]},
        {"code": "de", "name": "German", "targets": []},
        {"code": "fr", "name": "French", "targets": []},
    ]
    assert client.detect("a b") == [{"confidence": 100.0, "language": "en"}]


def test_libretranslatepy_hears_of_a_wrong_key_and_pair(translator: RunningServer, client: LibreTranslateAPI) -> None:
    for wrong in (LibreTranslateAPI(translator.url, "a-wrong-key"), LibreTranslateAPI(translator.url)):
        for call in (
            lambda wrong=wrong: wrong.translate("a", "en", "de"),
            wrong.languages,
            lambda w=wrong: w.detect(""),
        ):
            status, error = refused(call)
            assert status == 403
            assert "key" in error["error"]
    status, error = refused(lambda: client.translate("a", "en", "es"))
    assert (status, error["code"]) == (400, "unknown_languages")
    assert error["error"] == "en-es is not translated here; this server has en-de, en-fr"
    assert error["request_id"]


def test_deep_translator_sends_all_in_the_query(translator: RunningServer, bahdanau_run: str) -> None:
    client = LibreTranslator(api_key=KEY, source="en", target="de", custom_url=f"{translator.url}/")
    wanted = antiphon.load(bahdanau_run).generate(TEXTS)
    assert client.translate_batch(TEXTS) == [one.text for one in wanted]
    stranger = LibreTranslator(api_key="a-wrong-key", source="en", target="de", custom_url=f"{translator.url}/")
    with pytest.raises(AuthorizationException):
        stranger.translate("a")
    with pytest.raises(ServerException):
        LibreTranslator(api_key=KEY, source="en", target="es", custom_url=f"{translator.url}/").translate("a")
    assert "a+%26+b" not in translator.log  # texts stand in the query, so paths alone are logged


def test_weblate_sends_batches(translator: RunningServer, bahdanau_run: str) -> None:
    """Its requests, replayed: the list of languages, then up to 20 texts with the key in the body."""
    texts = [*TEXTS * 4, "", "a {name} b", "%d c", "<b>d</b> e"]
    wanted = antiphon.load(bahdanau_run).generate(texts)
    with httpx.Client(base_url=translator.url, timeout=20.0) as weblate:
        assert weblate.request("GET", "/languages", json={"api_key": KEY}).status_code == 200
        body = {"api_key": KEY, "q": texts, "source": "en", "target": "de"}
        payload = weblate.post("/translate", json=body).raise_for_status().json()
    assert "error" not in payload
    found = payload["translatedText"]
    assert found[:-3] == [one.text for one in wanted[:-3]]
    for text, piece in zip(found[-3:], ("{name}", "%d", "<b>"), strict=True):
        assert text.count(piece) == 1
    assert found[-1].index("<b>") < found[-1].index("</b>")


@pytest.mark.parametrize("send", ["json", "data", "params"])
def test_alternatives_and_auto_have_the_shape_of_q(server: RunningServer, bahdanau_run: str, send: str) -> None:
    best = antiphon.load(bahdanau_run).generate(["a b c", "d e"], beam=5, n_best=3)
    one = {"q": "a b c", "source": "auto", "target": "de", "alternatives": 2}
    answer = server.client.post("/translate", **{send: one}).json()
    texts = [[other.text for other in found.alternatives] for found in best]
    assert answer["translatedText"] == texts[0][0]
    assert answer["alternatives"] == texts[0][1:]
    assert answer["detectedLanguage"] == {"confidence": 100.0, "language": "und"}
    many = server.client.post("/translate", **{send: {**one, "q": ["a b c", "d e"]}}).json()
    assert many["translatedText"] == [row[0] for row in texts]
    assert many["alternatives"] == [row[1:] for row in texts]
    assert many["detectedLanguage"] == [answer["detectedLanguage"]] * 2


def test_alternatives_have_their_placeholders(server: RunningServer) -> None:
    body = {"q": "a {name} b c", "source": "en", "target": "de", "alternatives": 3}
    answer = server.client.post("/translate", json=body).json()
    assert [text.count("{name}") for text in (answer["translatedText"], *answer["alternatives"])] == [1] * 4


def test_one_model_takes_any_codes(server: RunningServer) -> None:
    assert LibreTranslateAPI(server.url).translate("a b c", "xx", "yy") == server.client.post(
        "/v1/generate", json={"inputs": "a b c"}
    ).json()["outputs"]["text"]  # fmt: skip
    assert server.client.get("/languages").json() == [{"code": "und", "name": "und", "targets": ["und"]}]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"content": b'{"q": '}, 400, "the body is not JSON"),
        ({"json": {"target": "de"}}, 400, "q: is missing; give it"),
        ({"json": {"q": "a"}}, 400, "target: is missing; give it"),
        ({"json": {"q": 3, "target": "de"}}, 400, "q: must be string or list of string"),
        (
            {"json": {"q": "a", "target": "de", "alternatives": 21}},
            400,
            "alternatives: must be less than or equal to 20",
        ),
        ({"json": {"q": "a", "target": "d" * 13}}, 400, "target: string should have at most 12 characters"),
        ({"json": {"q": ["a"] * 129, "target": "de"}}, 413, "q: 129 is more than this server takes at once, 128"),
        ({"content": b"a", "headers": {"content-type": "image/png"}}, 415, "content-type: 'image/png' is not read"),
    ],
)
def test_mistakes_are_an_error_with_a_sentence(
    server: RunningServer, body: dict[str, object], status: int, message: str
) -> None:
    answer = server.client.post("/translate", **body)
    assert answer.status_code == status
    error = answer.json()
    assert message in error["error"]
    assert error["code"]
    assert error["request_id"] == answer.headers["x-request-id"]


def test_empty_lists_are_answered(server: RunningServer) -> None:
    answer = server.client.post("/translate", json={"q": [], "source": "en", "target": "de"})
    assert (answer.status_code, answer.json()) == (200, {"translatedText": []})
