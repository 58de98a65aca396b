"""/v1/explain/step: the numbers of `explain_step`, in JSON of a bounded size."""

from __future__ import annotations

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
