"""Placeholders, tags and glossaries over HTTP: they come back whole, or the flags of the answer name them."""

from __future__ import annotations

from typing import Any

import pytest
from running_server import RunningServer

import antiphon
from antiphon.inference.generator import Generator
from antiphon.serve.protect import pieces

TEXTS = ["a {name} b", "{name}", "%d", "<b>a</b> b", "a b c", "", "{x}{x} a {x}", "a b.{y  z}"]


@pytest.fixture(scope="module")
def generator(bahdanau_run: str) -> Generator:
    return antiphon.load(bahdanau_run)


def generate(server: RunningServer, inputs: object, **fields: object) -> Any:  # noqa: ANN401 (an output or a list)
    answer = server.client.post("/v1/generate", json={"inputs": inputs, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["outputs"]


def test_without_protect_the_flags_name_what_was_lost(server: RunningServer, generator: Generator) -> None:
    found, wanted = generate(server, TEXTS), generator.generate(TEXTS, weights=False)
    for one, own, text in zip(found, wanted, TEXTS, strict=True):
        assert one["text"] == own.text
        lost = [f"placeholder: {piece} is not in the answer" for piece in dict.fromkeys(pieces(text))]
        assert one["flags"] == [*own.flags, *lost]


@pytest.mark.parametrize("options", [{}, {"beam": 3, "n_best": 3}, {"sample": True, "seed": 4}])
def test_with_protect_each_comes_back(server: RunningServer, generator: Generator, options: dict[str, Any]) -> None:
    found = generate(server, TEXTS, protect=True, **options)
    plain = generator.generate(["a b", "", "", "a b", "a b c", "", "a", "a b."], **options)
    for one, own, text in zip(found, plain, TEXTS, strict=True):
        rest = [one["text"], *(other["text"] for other in one.get("alternatives", ()))]
        assert [sorted(pieces(answer)) for answer in rest] == [sorted(pieces(text))] * len(rest)
        answer = one["text"]
        for piece in pieces(text):
            answer = answer.replace(piece, "", 1)
        if "sample" not in options:
            assert answer.split() == own.text.split()
        put_back = [f"placeholder: {piece} was put back by its place" for piece in dict.fromkeys(pieces(text))]
        assert [flag for flag in one["flags"] if flag.startswith("placeholder")] == put_back
    assert found[3]["text"].index("<b>") < found[3]["text"].index("</b>")
    alone = [generate(server, text, protect=True, **options) for text in TEXTS]
    assert [one["text"] for one in alone] == [one["text"] for one in found]


def test_a_model_without_attention_puts_them_back_too(assorted: RunningServer) -> None:
    for one, text in zip(generate(assorted, TEXTS, model="static", protect=True), TEXTS, strict=True):
        assert sorted(pieces(one["text"])) == sorted(pieces(text))


def test_attention_and_trees_are_those_of_the_answer_without_pieces(
    server: RunningServer, generator: Generator
) -> None:
    one = generate(server, "a {name} b", protect=True, **{"return": ["attention", "tree", "tokens"]})
    own = generator.generate("a b")
    assert one["tokens"] == own.tokens
    assert one["attention"]["source_tokens"] == own.source_tokens == ["a", "b", "</s>"]
    assert [node["token"] for node in one["trees"][0]["nodes"] if node["winner"]] == own.tokens
    assert one["text"].count("{name}") == 1


def test_a_prompt_and_labels_keep_no_placeholders(assorted: RunningServer, assorted_runs: dict[str, str]) -> None:
    for model, text in (("rnn-lm", "K {name}"), ("tagger", "a {name} b")):
        own = antiphon.load(assorted_runs[model]).generate(text)
        found = generate(assorted, text, model=model, protect=True)
        assert (found["text"], found["flags"]) == (own.text, own.flags)


GLOSSARY = {"a": "O", "b c": "N M", "c": "L", "d": "K"}


@pytest.mark.parametrize("beam", [1, 4])
def test_terms_are_in_the_answers_that_need_them(server: RunningServer, generator: Generator, beam: int) -> None:
    texts = ["a b c", "a c", "e f", "", "b c b c"]
    required = [["O", "N M"], ["O", "L"], [], [], ["N M"]]
    found = generate(server, texts, glossary=GLOSSARY, beam=beam)
    for one, text, require in zip(found, texts, required, strict=True):
        assert one["text"] == generator.generate(text, require=require, beam=beam).text
        assert all(f" {phrase} " in f" {one['text']} " for phrase in require)
        assert not [flag for flag in one["flags"] if "glossary" in flag]
    assert generate(server, texts)[0]["text"] != found[0]["text"]


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ({"glossary": {"a": "Haus"}}, ["Haus"]),
        ({"glossary": {"a": "Haus", "b": "O"}}, ["Haus"]),
        ({"glossary": {"a": "K L M", "b": "N O", "c": "O K"}}, ["O K"]),
        ({"glossary": {"a": "O"}, "sample": True, "seed": 2}, ["O"]),
        ({"glossary": {"a": "O"}, "beam": 2, "diversity": 1.0}, ["O"]),
        ({"glossary": {"a": "O"}, "forbid": ["O"], "beam": 2}, ["O"]),
        ({"glossary": {"a": "k"}}, ["k"]),
    ],
)
def test_terms_that_cannot_be_kept_are_named(server: RunningServer, fields: dict[str, Any], lost: list[str]) -> None:
    """As many as the model knows and as fit into its longest answer are kept."""
    one = generate(server, "a b c", **fields)
    assert [flag for flag in one["flags"] if flag.startswith("glossary")] == [
        f"glossary: {term!r} is not in the answer" for term in lost
    ]
    kept = [term for term in fields["glossary"].values() if term not in lost]
    assert all(term in one["text"] for term in kept)


def test_terms_and_pieces_together(server: RunningServer) -> None:
    """The second search, without pieces, needs the terms, too; a term inside a placeholder is none."""
    one = generate(server, "a {d} e", protect=True, glossary=GLOSSARY, require=["M"])
    assert one["text"].count("{d}") == 1
    assert {"O", "M"} <= set(one["text"].split())
    assert [flag for flag in one["flags"] if flag.startswith(("glossary", "required"))] == []
    assert not generate(server, "{d} e", glossary={"d": "Haus"})["flags"][-1].startswith("glossary")


def test_a_form_sends_a_glossary_as_json(server: RunningServer) -> None:
    answer = server.client.post("/v1/generate", data={"inputs": "a", "glossary": '{"a": "O"}', "protect": "true"})
    assert "O" in answer.json()["outputs"]["text"].split()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"glossary": {"a": ""}}, "glossary.a: must not be blank; leave it out"),
        ({"glossary": {"a": " \t"}}, "glossary.a: must not be blank; leave it out"),
        ({"glossary": {"": "K"}}, "glossary: must not be blank; leave it out"),
        ({"glossary": {"a": 3}}, "glossary.a: must be a valid string"),
        ({"glossary": {"a": "x" * 201}}, "glossary.a: string should have at most 200 characters"),
        ({"glossary": {str(n): "K" for n in range(65)}}, "at most 64"),
        ({"glossary": ["a"]}, "glossary: must be a valid dictionary"),
        ({"glossary": "not JSON"}, "glossary: must be a valid dictionary"),
        ({"protect": "perhaps"}, "protect: must be a valid boolean"),
    ],
)
def test_what_is_refused(server: RunningServer, fields: dict[str, Any], message: str) -> None:
    answer = server.client.post("/v1/generate", json={"inputs": "a", **fields})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert message in error["message"]
    assert error["param"] == next(iter(fields))


def test_a_glossary_is_for_texts_alone(assorted: RunningServer) -> None:
    for model, given in (("rnn-lm", "K"), ("tagger", "a")):
        answer = assorted.client.post("/v1/generate", json={"inputs": given, "model": model, "glossary": {"a": "K"}})
        assert answer.status_code == 422
        assert "glossary: only for models that turn a text into another" in answer.json()["error"]["message"]
