"""Each route of /v1 gives what Python gives: fields of `return`, files in base64 and forms, scores, trees, maps."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running_server import RunningServer
from served_models import npy_bytes, png_bytes, wav_bytes

import antiphon
from antiphon.inference.generator import Generator
from antiphon.plots.sentence_map import make_map

TEXTS = ["a b c", "", "h g f e d", "a", "a b c"]
FIELDS = ["tokens", "log_probs", "attention", "tree", "flags"]


@pytest.fixture(scope="module")
def generator(bahdanau_run: str) -> Generator:
    return antiphon.load(bahdanau_run)


def post(server: RunningServer, path: str, **body: object) -> Any:  # noqa: ANN401 (a JSON object)
    answer = server.client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("inputs", [TEXTS, TEXTS[0], [TEXTS[0]]])
@pytest.mark.parametrize("options", [{}, {"beam": 4, "n_best": 3}, {"sample": True, "seed": 7}])
def test_answers_have_the_shape_and_order_of_the_inputs(
    server: RunningServer, generator: Generator, inputs: Any, options: dict[str, Any]  # noqa: ANN401
) -> None:  # fmt: skip
    """The second sample of a text is another one than the first, as in Python."""
    found = post(server, "generate", inputs=inputs, **options)["outputs"]
    assert isinstance(found, list) == isinstance(inputs, list)
    wanted = generator.generate([inputs] if isinstance(inputs, str) else inputs, **options, weights=False)
    for one, own in zip([found] if isinstance(found, dict) else found, wanted, strict=True):
        assert (one["text"], one["flags"]) == (own.text, own.flags)
        assert one["score"] == pytest.approx(own.score, abs=1e-5)
        others = [(other["text"], pytest.approx(other["score"])) for other in one.get("alternatives", [])]
        expected = [(other.text, other.score) for other in own.alternatives]
        assert others == (expected if len(expected) > 1 else [])


@pytest.mark.parametrize("field", FIELDS)
def test_return_adds_one_field(server: RunningServer, generator: Generator, field: str) -> None:
    plain, found = (post(server, "generate", inputs=TEXTS, **more)["outputs"] for more in ({}, {"return": [field]}))
    name = {"tree": "trees"}.get(field, field)
    for one, same in zip(found, plain, strict=True):
        assert set(one) - set(same) == {name} - {"flags"}
        assert one["text"] == same["text"]
    assert generator.generate(TEXTS)[0].text == found[0]["text"]


def test_all_fields_at_once(server: RunningServer, generator: Generator) -> None:
    found = post(server, "generate", inputs=TEXTS, beam=3, **{"return": FIELDS})["outputs"]
    for one, own, text in zip(found, generator.generate(TEXTS, beam=3), TEXTS, strict=True):
        assert one["tokens"] == own.tokens
        assert one["log_probs"] == pytest.approx(own.log_probs, abs=1e-5)
        assert one["attention"]["source_tokens"] == own.source_tokens
        assert one["flags"] == own.flags
        if own.weights is not None:
            np.testing.assert_allclose(one["attention"]["weights"], own.weights, atol=6e-5)
            assert one["trees"] == [pytest_tree(generator.tree(text, beam=3).as_dict())]


def pytest_tree(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree, whose numbers need only be close."""
    numbers = ("log_prob", "total", "score")
    nodes = [
        {name: pytest.approx(value, abs=1e-4) if name in numbers else value for name, value in node.items()}
        for node in tree["nodes"]
    ]
    return {**tree, "nodes": nodes}


def test_flags_that_need_the_attention_come_if_they_are_asked_for(server: RunningServer, generator: Generator) -> None:
    """One token can attend to few of twenty."""
    body: Any = {"inputs": " ".join("abcdefgh" * 3), "max_length": 1}
    flags = generator.generate(body["inputs"], max_length=1).flags
    [known] = [flag for flag in flags if flag.startswith("source not attended")]
    asked = post(server, "generate", **body, **{"return": ["flags"]})["outputs"]
    assert asked["flags"] == flags
    assert "attention" not in asked
    assert known not in post(server, "generate", **body)["outputs"]["flags"]


def test_a_model_without_attention(assorted: RunningServer) -> None:
    found = post(assorted, "generate", model="static", inputs="a b", **{"return": ["flags", "tokens", "tree"]})
    assert found["outputs"]["tokens"]
    answer = assorted.client.post("/v1/generate", json={"model": "static", "inputs": "a", "return": ["attention"]})
    assert answer.status_code == 422
    assert "return: this model returns no attention; leave attention out" in answer.json()["error"]["message"]


def test_a_prefix_as_text_and_as_ids(server: RunningServer, generator: Generator) -> None:
    ids = generator.target_tokenizer.encode("N O")
    for prefix in ("N O", ids):
        for one, own in zip(
            post(server, "generate", inputs=TEXTS, prefix=prefix)["outputs"],
            generator.generate(TEXTS, prefix="N O"),
            strict=True,
        ):
            assert one["text"] == own.text


# Files


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {"picture": png_bytes(3), "sound": wav_bytes(), "array": npy_bytes()}


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_pictures_in_base64_in_data_urls_and_in_forms(
    assorted: RunningServer, assorted_runs: dict[str, str], tmp_path: Path
) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_bytes(png_bytes(number))
    wanted = [one.text for one in antiphon.load(assorted_runs["image"]).generate([str(path) for path in paths])]
    contents = [path.read_bytes() for path in paths]
    plain = [encoded(content) for content in contents]
    for inputs in (plain, [f"data:image/png;base64,{one}" for one in plain], [{"image": one} for one in plain]):
        found = post(assorted, "generate", model="image", inputs=inputs)["outputs"]
        assert [one["text"] for one in found] == wanted
    many = [("inputs", ("a.png", content, "image/png")) for content in contents]
    sent = assorted.client.post("/v1/generate", data={"model": "image"}, files=many).json()["outputs"]
    assert [one["text"] for one in sent] == wanted
    for name in ("inputs", "image"):
        form = {name: ("a.png", contents[1], "image/png")}
        sent = assorted.client.post("/v1/generate", data={"model": "image", "return": "tokens"}, files=form)
        assert sent.json()["outputs"]["text"] == wanted[1]
        assert "tokens" in sent.json()["outputs"]


def test_several_sources_as_objects_and_as_fields(
    assorted: RunningServer, assorted_runs: dict[str, str], files: dict[str, bytes], tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    line = "\t".join(["a b", *(str(tmp_path / name) for name in files)])
    generator = antiphon.load(assorted_runs["several"])
    wanted, tabbed = generator.generate([line, line.replace("a b", "c d", 1)], beam=3)
    given = {"question": "a b", **{name: encoded(content) for name, content in files.items()}}
    inputs = [given, {**given, "question": "c\td"}]
    found = post(assorted, "generate", model="several", inputs=inputs, beam=3, **{"return": ["attention"]})["outputs"]
    assert [one["text"] for one in found] == [wanted.text, tabbed.text]
    np.testing.assert_allclose(found[0]["attention"]["weights"], wanted.weights, atol=6e-5)
    assert found[0]["attention"]["source_tokens"] == wanted.source_tokens
    form = {name: (name, content) for name, content in files.items()}
    fields = {"model": "several", "question": "a b", "beam": "3"}
    for path, key in (("generate", "outputs"), ("search", "output")):
        answer = assorted.client.post(f"/v1/{path}", data=fields, files=form)
        assert answer.json()[key]["text"] == wanted.text, answer.text
    scored = assorted.client.post("/v1/score", data={**fields, "targets": "K L"} | {"beam": []}, files=form).json()
    assert scored["outputs"]["log_prob"] == pytest.approx(generator.score([(line, "K L")])[0].log_prob, abs=1e-4)


def test_no_file_of_a_request_is_left_behind(assorted: RunningServer, scratch: Path) -> None:
    post(assorted, "generate", model="image", inputs=[encoded(png_bytes(9))])
    answer = assorted.client.post("/v1/generate", json={"model": "image", "inputs": [encoded(b"no picture")]})
    assert answer.status_code == 422
    assert list(scratch.glob("antiphon-*")) == []


def test_a_file_of_text_is_a_text(server: RunningServer, generator: Generator) -> None:
    sent = server.client.post("/v1/generate", files={"inputs": ("a.txt", b"\xef\xbb\xbfa b c", "text/plain")})
    assert sent.json()["outputs"]["text"] == generator.generate("a b c").text


# Scores, other tokens, trees, maps


def test_scores_have_the_shape_of_the_targets(server: RunningServer, generator: Generator) -> None:
    sources, targets = ["a b c", "", "h g"], ["K L", "M", ""]
    wanted = generator.score(list(zip(sources, targets, strict=True)))
    found = post(server, "score", inputs=sources, targets=targets)["outputs"]
    for one, own in zip(found, wanted, strict=True):
        assert (one["target"], one["tokens"], one["flags"]) == (own.target, own.tokens, own.flags)
        assert one["log_prob"] == pytest.approx(own.log_prob, abs=1e-4)
        assert one["log_probs"] == pytest.approx(own.log_probs, abs=1e-4)
    one = post(server, "score", inputs="a b c", targets="K L")["outputs"]
    close = {name: pytest.approx(found[0][name], abs=1e-5) for name in ("log_prob", "log_probs")}
    assert one == {**found[0], **close}


def test_a_language_model_scores_texts_alone(assorted: RunningServer, assorted_runs: dict[str, str]) -> None:
    wanted = antiphon.load(assorted_runs["rnn-lm"]).score(["K L", "M"])
    found = post(assorted, "score", model="rnn-lm", targets=["K L", "M"])["outputs"]
    assert [one["log_prob"] for one in found] == pytest.approx([one.log_prob for one in wanted], abs=1e-4)


@pytest.mark.parametrize("answer", [None, "K L M"])
@pytest.mark.parametrize("position", [0, 2])
def test_other_tokens_at_a_position(
    server: RunningServer, generator: Generator, answer: str | None, position: int
) -> None:
    wanted = generator.alternatives("a b c", position, 4, answer)
    found = post(server, "alternatives", inputs="a b c", position=position, count=4, answer=answer)["alternatives"]
    assert [(one["token"], one["text"]) for one in found] == [(one.token, one.text) for one in wanted]
    assert [one["probability"] for one in found] == pytest.approx([one.probability for one in wanted], abs=1e-4)


def test_a_search_goes_on_from_any_node(server: RunningServer, generator: Generator) -> None:
    """The prefix of a pruned node, as ids of tokens: this is how a search is steered."""
    tree = post(server, "search", inputs="a b c", beam=3, pruned=2)["output"]["trees"][0]
    assert tree == pytest_tree(generator.tree("a b c", beam=3, pruned=2).as_dict())
    nodes = tree["nodes"]
    node = next(one for one in nodes if one["status"] == "pruned" and one["step"] == 2 and one["token"] != "</s>")
    prefix: list[int] = []
    here: dict[str, Any] | None = node
    while here is not None:
        prefix.insert(0, here["token_id"])
        here = None if here["parent"] is None else nodes[here["parent"]]
    steered = post(server, "search", inputs="a b c", beam=3, pruned=2, prefix=prefix)["output"]
    assert steered["trees"] == [pytest_tree(generator.tree("a b c", beam=3, pruned=2, prefix=prefix).as_dict())]
    symbols = generator.target_tokenizer.symbols(prefix)
    assert steered["tokens"][:3] == symbols
    again = steered["trees"][0]["nodes"]
    assert [one["token"] for one in again if one["winner"]][:3] == symbols
    at_node = next(one for one in again if one["step"] == 2 and one["winner"])
    assert at_node["total"] == pytest.approx(node["total"], abs=1e-4)
    assert post(server, "generate", inputs="a b c", beam=3, prefix=prefix)["outputs"]["text"] == steered["text"]


@pytest.mark.parametrize("pruned", [0, 1, 50])
def test_as_many_pruned_candidates_as_are_asked_for(server: RunningServer, pruned: int) -> None:
    nodes = post(server, "search", inputs="a b c", beam=2, pruned=pruned)["output"]["trees"][0]["nodes"]
    counts = [
        len([one for one in nodes if one["step"] == step and one["status"] == "pruned"])
        for step in range(1 + nodes[-1]["step"])
    ]
    assert max(counts) <= pruned
    assert (sum(counts) > 0) == (pruned > 0)


@pytest.mark.parametrize("pool", [None, "last", "mean", "max"])
def test_a_map_has_a_point_for_each_input(server: RunningServer, generator: Generator, pool: Any) -> None:  # noqa: ANN401
    found = post(server, "map", inputs=TEXTS, pool=pool)
    made = make_map(generator, TEXTS, pool)
    points = dict(zip(made.sentences, made.plane.points.tolist(), strict=True))
    for text, point in zip(TEXTS, found["points"], strict=True):
        assert point == (None if text == "" else pytest.approx(points[text], abs=1e-4))
    assert found["shares"] == pytest.approx(list(made.plane.shares), abs=1e-4)


def test_a_map_of_pictures(assorted: RunningServer) -> None:
    pictures = [encoded(png_bytes(number)) for number in (1, 2, 3, 1)]
    points = post(assorted, "map", model="image", inputs=pictures)["points"]
    assert points[0] == points[3]
    assert points[0] != points[1]


def test_a_tagger_and_a_language_model_search_too(assorted: RunningServer, assorted_runs: dict[str, str]) -> None:
    for model, given in (("tagger", "a b c"), ("rnn-lm", "K L")):
        wanted = antiphon.load(assorted_runs[model]).generate(given, n_best=2, beam=2)
        found = post(assorted, "search", model=model, inputs=given, n_best=2, beam=2)["output"]
        assert (found["text"], found["tokens"]) == (wanted.text, wanted.tokens)
        assert [one["text"] for one in found["alternatives"]] == [one.text for one in wanted.alternatives]
