"""The fields of `return`: ids, words, spans, and the attention of every layer and head."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_generators import COUNT, FEATURES, file_generator, save_generator
from running_server import RunningServer, serving
from tiny_generators import tiny_folder, tiny_generator

import antiphon
from antiphon.inference.generation import AttentionHeads, Generation
from antiphon.inference.generator import PreparedText
from antiphon.inference.options import SearchKeywords
from antiphon.serve.answer_messages import answer_message

EVERYTHING = ["tokens", "token_ids", "log_probs", "attention", "heads", "tree"]
SEARCHES: list[SearchKeywords] = [
    {"beam": 1}, {"beam": 4, "n_best": 3}, {"sample": True, "seed": 7}, {"beam": 3, "patience": 1.0},
]  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A Transformer, a language model, a static context, and a model of a text beside a file."""
    root = tmp_path_factory.mktemp("return")
    made = {kind: tiny_folder(kind, root / kind) for kind in ("transformer", "transformer-lm", "static")}
    files = file_generator(root, [FEATURES, COUNT])
    return {**made, "files": save_generator(files, root / "files")}


@pytest.fixture(scope="module")
def several(folders: dict[str, str]) -> Iterator[RunningServer]:
    with serving(*folders.values(), options=["--threads", "1"]) as running:
        yield running


def post(server: RunningServer, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 (JSON)
    answer = server.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("options", SEARCHES)
def test_all_fields_of_every_search(several: RunningServer, folders: dict[str, str], options: SearchKeywords) -> None:
    model = antiphon.load(folders["transformer"])
    wanted = model.generate("a b c", heads=True, **options)
    body = {"model": "transformer", "inputs": ["a b c", "d"], "return": EVERYTHING, **options}
    [found, _] = post(several, "/v1/generate", body)["outputs"]
    assert (found["tokens"], found["token_ids"]) == (wanted.tokens, wanted.token_ids)
    assert wanted.heads is not None
    for kind in ("cross", "own", "source"):
        assert np.allclose(found["heads"][kind], getattr(wanted.heads, kind), atol=6e-5)
        assert all(len(f"{value}") <= 6 for value in np.ravel(found["heads"][kind]).tolist())
    assert np.allclose(found["attention"]["weights"], wanted.weights, atol=6e-5)
    assert found["attention"]["spans"] == [
        {"source": 0, "kind": "text", "first": 0, "last": 3, "grid": None, "text": "a b c"}
    ]
    assert found["attention"]["source_words"][3] == {"first": 3, "last": 3, "text": "</s>"}
    assert [word["text"] for word in found["attention"]["words"]] == wanted.tokens
    several_answers = found.get("alternatives", [])
    assert [one["token_ids"] for one in several_answers] == [
        one.token_ids for one in wanted.alternatives if len(wanted.alternatives) > 1
    ]
    winners = [node["token_id"] for node in found["trees"][0]["nodes"] if node["winner"]]
    assert winners == wanted.token_ids


def test_kinds_of_attention_that_a_model_has_not(several: RunningServer) -> None:
    body = {"inputs": "K L", "return": ["heads"], "max_length": 5}
    heads = post(several, "/v1/generate", {**body, "model": "transformer-lm"})["outputs"]["heads"]
    assert (heads["cross"], heads["source"]) == (None, None)
    assert np.shape(heads["own"]) == (2, 2, 7, 7)
    assert [word["text"] for word in heads["source_words"]] == ["K", "L"]
    static = post(several, "/v1/generate", {**body, "inputs": "a b", "model": "static"})["outputs"]["heads"]
    assert (static["cross"], static["own"], static["source"]) == (None, None, None)


def test_no_path_of_a_file_is_told(several: RunningServer, tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.ones((3, 4), np.float32))
    sent = base64.b64encode((tmp_path / "vectors.npy").read_bytes()).decode()
    body = {"model": "files", "inputs": {"path": sent, "count": "2"}, "return": ["attention", "heads"]}
    answer = several.client.post("/v1/generate", json=body)
    found = answer.json()["outputs"]["attention"]
    assert found["spans"] == [
        {"source": 0, "kind": "features", "first": 0, "last": 2, "grid": None, "text": None},
        {"source": 1, "kind": "text", "first": 3, "last": 4, "grid": None, "text": "2"},
    ]
    assert [word["text"] for word in found["source_words"]] == ["2", "</s>"]
    assert "antiphon-" not in answer.text  # as its temporary folders begin


def test_too_many_weights_are_left_out_and_flagged() -> None:
    made = tiny_generator("transformer")
    heads = AttentionHeads(cross=np.zeros((6, 8, 150, 150), np.float32))
    answer = Generation("x", ["x"], -1.0, [-1.0], ["a"], heads=heads, token_ids=[4])
    found = answer_message(answer, {"heads"}, made, PreparedText([], [], ()))
    assert found["heads"] is None
    assert found["flags"] == [
        "heads: 1,080,000 weights of all layers and heads are more than the 1,000,000 that are returned; "
        "shorten the input"
    ]
    assert answer.flags == []


def test_an_empty_input_has_no_attention(several: RunningServer) -> None:
    body = {"model": "transformer", "inputs": "", "return": EVERYTHING}
    found = post(several, "/v1/generate", body)["outputs"]
    assert (found["attention"]["weights"], found["heads"]["cross"]) == (None, None)
    assert (found["attention"]["words"], found["token_ids"], found["trees"][0]["nodes"]) == ([], [], [])


def test_alternatives_take_and_give_ids(several: RunningServer, folders: dict[str, str]) -> None:
    body = {"model": "transformer", "inputs": "a b c", "position": 1, "answer": [4, 5, 6], "count": 4}
    found = post(several, "/v1/alternatives", body)["alternatives"]
    wanted = antiphon.load(folders["transformer"]).alternatives("a b c", 1, 4, [4, 5, 6])
    assert [one["token_ids"] for one in found] == [one.token_ids for one in wanted]
    assert [one["token_id"] for one in found] == [one.token_id for one in wanted]
    assert [one["log_prob"] for one in found] == pytest.approx([one.log_prob for one in wanted], abs=1e-5)
    body["answer"] = [4, 99]
    assert several.client.post("/v1/alternatives", json=body).status_code == 422
