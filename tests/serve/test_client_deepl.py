"""The package `deepl` against a server: translations, languages, usage, and each mistake as the exception it knows."""

from __future__ import annotations

import deepl
import httpx
import pytest
from conftest import KEY
from running_server import RunningServer

import antiphon

TEXTS = ["a b c", "h g f e d", "a"]


@pytest.fixture
def client(translator: RunningServer) -> deepl.Translator:
    return deepl.Translator(KEY, server_url=translator.url)


@pytest.mark.parametrize(("language", "fixture"), [("DE", "bahdanau_run"), ("FR", "transformer_run")])
def test_texts_are_translated_in_order_as_by_generate(
    client: deepl.Translator, request: pytest.FixtureRequest, language: str, fixture: str
) -> None:
    wanted = antiphon.load(request.getfixturevalue(fixture)).generate(TEXTS)
    found = client.translate_text(TEXTS, source_lang="EN", target_lang=language)
    assert isinstance(found, list)
    assert [one.text for one in found] == [one.text for one in wanted]
    assert [one.detected_source_lang for one in found] == ["EN"] * 3
    assert [one.billed_characters for one in found] == [5, 9, 1]


def test_one_text_gives_one_result(client: deepl.Translator, bahdanau_run: str) -> None:
    found = client.translate_text("a b c", target_lang="DE")
    assert isinstance(found, deepl.TextResult)
    assert found.text == antiphon.load(bahdanau_run).generate("a b c").text
    assert found.detected_source_lang == "EN"


def test_options_of_deepl_are_taken(client: deepl.Translator) -> None:
    found = client.translate_text(
        ["a b c", ""], target_lang="DE", formality="prefer_more", split_sentences="off", preserve_formatting=True,
        context="b c", tag_handling="html", ignore_tags="code", outline_detection=False,
    )  # fmt: skip
    assert isinstance(found, list)
    assert [bool(one.text) for one in found] == [True, False]


def test_regions_are_those_of_their_language(client: deepl.Translator) -> None:
    plain, regional = (client.translate_text("a b c", target_lang=code) for code in ("DE", "DE-CH"))
    assert str(plain) == str(regional)


def test_languages_and_usage(client: deepl.Translator) -> None:
    """`type=target` comes in the body of a GET, as a form."""
    assert [(one.code, one.name) for one in client.get_source_languages()] == [("EN", "English")]
    targets = client.get_target_languages()
    assert [(one.code, one.name, one.supports_formality) for one in targets] == [
        ("DE", "German", False),
        ("FR", "French", False),
    ]
    usage = client.get_usage()
    assert usage.character.count == 0
    assert not usage.any_limit_reached


def test_a_wrong_key(translator: RunningServer) -> None:
    stranger = deepl.Translator("a-wrong-key", server_url=translator.url)
    calls = (
        lambda: stranger.translate_text("a", target_lang="DE"),
        stranger.get_usage,
        stranger.get_source_languages,
        stranger.get_target_languages,
    )
    for call in calls:
        with pytest.raises(deepl.AuthorizationException, match="this is not a key of this server"):
            call()


def test_an_unknown_pair_names_those_that_exist(client: deepl.Translator) -> None:
    with pytest.raises(
        deepl.DeepLException, match="any-ES is not translated here; this server has en-de, en-fr"
    ) as got:
        client.translate_text("a", target_lang="ES")
    assert got.value.http_status_code == 400
    with pytest.raises(deepl.DeepLException, match="DE-FR is not translated here"):
        client.translate_text("a", source_lang="DE", target_lang="FR")


def test_bad_values_are_bad_requests(client: deepl.Translator) -> None:
    with pytest.raises(deepl.DeepLException, match=r"Bad request, message: text: 129 is more than .* 128"):
        client.translate_text(["a"] * 129, target_lang="DE")
    with pytest.raises(deepl.DeepLException, match=r"Bad request, message: text\[0\] in characters: 20,001 is more"):
        client.translate_text("x" * 20_001, target_lang="DE")
    with pytest.raises(
        deepl.DeepLException, match="Bad request, message: glossary_id: this server keeps no glossaries"
    ):
        client.translate_text("a", source_lang="EN", target_lang="DE", glossary="some-id")
    with pytest.raises(deepl.DeepLException, match=r"Not found, message: there is no '/v2/.*"):
        client.get_glossary_languages()


@pytest.mark.parametrize(
    "body",
    [
        {"content": b'{"text": ['},
        {"content": b"\xff\xfe"},
        {"content": b"[]"},
        {"json": {}},
        {"json": {"text": ["a"]}},
        {"json": {"text": [3], "target_lang": "DE"}},
        {"json": {"text": ["a"], "target_lang": "D" * 100}},
        {"json": {"text": None, "target_lang": "DE"}},
        {"content": b"<a/>", "headers": {"content-type": "application/xml"}},
    ],
)
def test_every_mistake_is_a_message_that_the_client_reads(translator: RunningServer, body: dict) -> None:
    headers = {"Authorization": f"DeepL-Auth-Key {KEY}", **body.pop("headers", {})}
    answer = translator.client.post("/v2/translate", **body, headers=headers)
    assert answer.status_code == 400
    error = answer.json()
    assert isinstance(error["message"], str)
    assert isinstance(error["detail"], str)
    assert error["request_id"] == answer.headers["x-request-id"]


def test_a_form_is_read_as_the_older_clients_send_it(translator: RunningServer, bahdanau_run: str) -> None:
    answer = httpx.post(
        f"{translator.url}/v2/translate",
        data={"text": ["a b c", "d"], "target_lang": "DE", "auth_key": "ignored"},
        headers={"Authorization": f"DeepL-Auth-Key {KEY}"},
    )
    wanted = antiphon.load(bahdanau_run).generate(["a b c", "d"])
    assert [one["text"] for one in answer.json()["translations"]] == [one.text for one in wanted]


def test_weblate_sends_placeholders_as_tags(translator: RunningServer) -> None:
    """Its requests, replayed: a list of texts in XML, whose placeholders it looks for in the answers."""
    headers = {"Authorization": f"DeepL-Auth-Key {KEY}"}
    with httpx.Client(base_url=f"{translator.url}/v2/", headers=headers, timeout=20.0) as weblate:
        listed = {kind: weblate.get("languages", params={"type": kind}).json() for kind in ("source", "target")}
        assert "EN" in {one["language"] for one in listed["source"]}
        assert "DE" in {one["language"] for one in listed["target"]}
        texts = ['a <x id="2"></x> b', '<x id="0"></x><x id="7"></x> c', "d &amp; e", "f"]
        body = {
            "text": texts, "source_lang": "EN", "target_lang": "DE", "tag_handling": "xml", "ignore_tags": ["x"],
            "formality": "default",
        }  # fmt: skip
        answer = weblate.post("translate", json=body)
        answer.raise_for_status()
    found = [one["text"] for one in answer.json()["translations"]]
    assert found[0].count('<x id="2"></x>') == 1
    assert found[1].startswith('<x id="0"></x><x id="7"></x> ')
    assert found[2].count("&amp;") == 1
    assert "<x" not in found[3]
