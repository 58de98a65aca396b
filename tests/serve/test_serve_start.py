"""The server starts, says where it is, answers as `generate` does, and ends on SIGTERM."""

from __future__ import annotations

import signal

import pytest
from running_server import RunningServer, serving

import antiphon


def test_answers_are_those_of_generate(server: RunningServer, bahdanau_run: str) -> None:
    texts = ["a b c", "", "h g f e d", "a"]
    wanted = antiphon.load(bahdanau_run).generate(texts)
    answer = server.client.post("/v1/generate", json={"inputs": texts})
    assert answer.status_code == 200
    outputs = answer.json()["outputs"]
    assert [one["text"] for one in outputs] == [one.text for one in wanted]
    assert [one["score"] for one in outputs] == pytest.approx([one.score for one in wanted], abs=1e-5)
    assert [one["flags"] for one in outputs] == [one.flags for one in wanted]


def test_one_input_gives_one_output(server: RunningServer) -> None:
    answer = server.client.post("/v1/generate", json={"inputs": "a b c"}).json()
    assert isinstance(answer["outputs"], dict)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0)])
def test_a_signal_ends_it(bahdanau_run: str, number: int, code: int) -> None:
    with serving(bahdanau_run) as running:
        assert running.client.get("/readyz").status_code == 200
        assert running.stop(number) == code
