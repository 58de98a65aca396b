"""/v1/explain: the numbers of `explain_step` and `occlusion`, in JSON of a bounded size."""

from __future__ import annotations

from typing import Literal

import pytest
from running_server import RunningServer

import antiphon


@pytest.mark.parametrize("dimensions", [3, 64, None])
def test_a_step_is_that_of_python(server: RunningServer, bahdanau_run: str, dimensions: int | None) -> None:
    body = {"inputs": "a b c", "position": 1, "answer": "K L", "dimensions": dimensions}
    answer = server.client.post("/v1/explain/step", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    wanted = antiphon.explain_step(bahdanau_run, "a b c", 1, answer="K L").as_dict(dimensions)
    assert found == {**wanted, "model": "bahdanau"}
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
    assert reply.json() == {**wanted, "log_probs": pytest.approx(wanted["log_probs"]), "model": "bahdanau"}
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
