"""/v1/explain: the numbers of `explain_step` and `occlusion`, in JSON of a bounded size."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from file_generators import CELLS, IMAGE, file_generator, given_file, save_generator
from running_server import RunningServer, serving

import antiphon
from antiphon.inference.source_view import view_sources


@pytest.mark.parametrize("dimensions", [3, 64, None])
def test_a_step_is_that_of_python(server: RunningServer, bahdanau_run: str, dimensions: int | None) -> None:
    body = {"inputs": "a b c", "position": 1, "answer": "K L", "dimensions": dimensions}
    answer = server.client.post("/v1/explain/step", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    wanted = antiphon.explain_step(bahdanau_run, "a b c", 1, answer="K L").as_dict(dimensions)
    assert found == {**wanted, "model": "bahdanau", "update": None}
    [states] = [part for part in found["parts"] if part["name"] == "states"]
    assert len(states["values"][0]) == (3 if dimensions == 3 else 12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"position": 9}, "position: the answer has 3 tokens; choose one of them"),
        ({"layer": 1}, "layer, head: the decoder of this model is no Transformer; leave them out"),
        ({"answer": [4, 99]}, "answer: 99 is no token; give ids from 0 to 8"),
    ],
)
def test_what_is_refused(server: RunningServer, change: dict[str, object], message: str) -> None:
    body = {"inputs": "a b c", "position": 1, "answer": "K L", **change}
    answer = server.client.post("/v1/explain/step", json=body)
    assert answer.status_code == 422
    assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize("by", ["token", "word"])
@pytest.mark.parametrize("answer", [None, "K L", [4, 5]])
def test_occlusion_is_that_of_python(
    server: RunningServer, bahdanau_run: str, by: Literal["token", "word"], answer: str | list[int] | None
) -> None:
    body = {"inputs": "a b c", "answer": answer, "by": by}
    reply = server.client.post("/v1/explain/occlusion", json=body)
    assert reply.status_code == 200, reply.text
    wanted = antiphon.occlusion(bahdanau_run, "a b c", answer, by=by).as_dict()
    span = {"source": 0, "kind": "text", "first": 0, "last": 3, "grid": None, "text": "a b c"}
    beside = {"spans": [span], "model": "bahdanau", "update": None}
    assert reply.json() == {**wanted, "log_probs": pytest.approx(wanted["log_probs"]), **beside}
    assert len(wanted["differences"]) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": [4, 99]}, "answer: 99 is no token; give ids from 0 to 8"),
        ({"inputs": ""}, "empty source; there is nothing to explain"),
        ({"by": "letter"}, "by: must be 'token' or 'word'"),
    ],
)
def test_what_occlusion_refuses(server: RunningServer, change: dict[str, object], message: str) -> None:
    answer = server.client.post("/v1/explain/occlusion", json={"inputs": "a b c", **change})
    assert answer.status_code == 422
    assert message in answer.json()["error"]["message"]


def test_a_picture_that_was_sent_is_told_as_it_is_read(tmp_path: Path) -> None:
    made = file_generator(tmp_path, IMAGE, front=CELLS)
    run = save_generator(made, tmp_path / "pictures")
    path = given_file(tmp_path, "image", 30)
    body = {"inputs": base64.b64encode(Path(path).read_bytes()).decode()}
    with serving(run) as running:
        answers = [
            running.client.post(f"/v1/{route}", json={**body, **more})
            for route, more in (("explain/source", {}), ("explain/occlusion", {"answer": "a b"}), ("generate", {}))
        ]
    source, occluded, _ = (answer.json() for answer in answers)
    [shown] = view_sources(made, path)["sources"]
    assert {**source["sources"][0], "grid": tuple(source["sources"][0]["grid"])} == shown
    assert occluded["spans"] == [{"source": 0, "kind": "image", "first": 0, "last": 31, "grid": [4, 8], "text": None}]
    wanted = antiphon.occlusion(made, path, "a b").differences
    assert np.allclose(occluded["differences"], wanted, atol=2e-4)
    assert all("antiphon-" not in answer.text for answer in answers)
