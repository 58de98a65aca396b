"""/v1/chat/completions: a dialogue model reads the turns before the last, as many as it was trained with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_server import RunningServer, serving
from untrained_models import LogitBias, untrained_model

import antiphon
from antiphon.inference.conversation import TurnFormat
from antiphon.inference.flags import FlagLimits
from antiphon.model_folder import save_model

PATH = "/v1/chat/completions"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as if it had been trained with dialogues of at most three turns."""
    folder = tmp_path_factory.mktemp("serve") / "talker"
    loaded = untrained_model(LogitBias(end=-0.5), longest=30)
    save_model(folder, loaded.config, loaded.model.state_dict(), loaded.source, loaded.target_tokenizer)
    FlagLimits(turns=TurnFormat(" ? ", 3)).save(folder)
    return folder


@pytest.fixture(scope="module")
def talker(folder: Path) -> Iterator[RunningServer]:
    with serving(folder) as running:
        yield running


def messages(*turns: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in turns]


TALK = [("user", "f f"), ("assistant", "e"), ("user", "a b"), ("assistant", "c"), ("user", "d d")]


@pytest.mark.parametrize(
    ("turns", "source"),
    [
        (TALK, "a b ? c ? d d"),
        (TALK[-1:], "d d"),
        ([("system", "b b b"), *TALK[2:4], ("tool", "b"), *TALK[4:]], "a b ? c ? d d"),
        ([*TALK[2:], ("assistant", "e e")], "a b ? c ? d d"),
        ([*TALK[2:4], ("user", [{"type": "text", "text": "d d"}])], "a b ? c ? d d"),
        ([("user", "a b"), ("assistant", None), ("user", "d d")], "a b ? d d"),
    ],
    ids=["three turns", "one turn", "no instructions", "up to the last of the user", "parts", "no answer"],
)
def test_messages_are_the_turns_of_the_source(
    talker: RunningServer, folder: Path, turns: list[tuple[str, Any]], source: str
) -> None:
    answer = talker.client.post(PATH, json={"messages": messages(*turns)})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["choices"][0]["message"]["content"] == antiphon.load(folder).generate(source).text
    assert found["usage"]["prompt_tokens"] == len(source.split()) + 1, "with </s>"


def test_a_stream_reads_the_same_turns(talker: RunningServer) -> None:
    body = {"messages": messages(*TALK)}
    whole = talker.client.post(PATH, json=body).json()["choices"][0]["message"]["content"]
    lines = talker.client.post(PATH, json={**body, "stream": True}).text.split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line and not line.endswith("[DONE]")]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == whole != ""


def test_an_empty_turn_has_no_answer(talker: RunningServer) -> None:
    found = talker.client.post(PATH, json={"messages": messages(*TALK, ("user", " "))}).json()
    assert found["choices"][0]["message"]["content"] == ""


def test_the_facts_say_how_many_turns_are_read(talker: RunningServer) -> None:
    [facts] = talker.client.get("/info").json()["models"]
    assert facts["turns"] == {"separator": " ? ", "most": 3}


def test_another_model_answers_the_last_line_alone(server: RunningServer, bahdanau_run: str) -> None:
    found = server.client.post(PATH, json={"messages": messages(*TALK)}).json()
    assert found["choices"][0]["message"]["content"] == antiphon.load(bahdanau_run).generate("d d").text
    assert found["usage"]["prompt_tokens"] == 3
    [facts] = server.client.get("/info").json()["models"]
    assert facts["turns"] is None
