"""/v1/generate/stream: text as it becomes certain, the search as it goes on, and then exactly what generate gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from running_server import RunningServer

import antiphon
from antiphon.inference.generator import Generator

Event = tuple[str, dict[str, Any]]
LONG = "a b c d. e f g h. " * 9
TEXTS = ["a b c", "h g f e d", "a", "", LONG]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"beam": 4},
    "patient": {"beam": 3, "patience": 2.0, "length_penalty": 0.5, "n_best": 3},
    "constrained": {"beam": 3, "require": ["O N"], "forbid": ["L L"]},
    "sample": {"sample": True, "seed": 5, "temperature": 1.3},
    "prefix": {"beam": 2, "prefix": "K M"},
    "covering": {"beam": 4, "coverage": 2.0},
}
ALONE: dict[str, dict[str, Any]] = {
    "diverse": {"beam": 4, "diversity": 1.0},
    "samples": {"sample": True, "n_best": 3},
    "risk": {"sample": True, "mbr": "chrf"},
}


@pytest.fixture(scope="module")
def generator(bahdanau_run: str) -> Generator:
    return antiphon.load(bahdanau_run)


def stream(server: RunningServer, **body: object) -> list[Event]:
    """The events of an answer, as a browser's EventSource reads them."""
    with server.client.stream("POST", "/v1/generate/stream", json=body) as answer:
        content = answer.read().decode()
        assert answer.status_code == 200, content
        assert answer.headers["content-type"].startswith("text/event-stream")
    events = []
    for block in content.split("\n\n")[:-1]:
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


@pytest.mark.parametrize("name", SEARCHES | ALONE)
@pytest.mark.parametrize("text", TEXTS)
def test_the_texts_are_the_beginning_of_the_answer_of_generate(
    server: RunningServer, generator: Generator, text: str, name: str
) -> None:
    options = (SEARCHES | ALONE)[name]
    *updates, (last, done) = stream(server, inputs=text, **options)
    wanted = generator.generate(text, **options, weights=False)
    assert last == "done"
    assert (done["model"], done["output"]["text"], done["output"]["flags"]) == ("bahdanau", wanted.text, wanted.flags)
    assert done["output"]["score"] == pytest.approx(wanted.score, abs=1e-5)
    assert [other["text"] for other in done["output"].get("alternatives", [done["output"]])] == [
        other.text for other in wanted.alternatives or [wanted]
    ]
    assert {event for event, _ in updates} <= {"text"}
    assert wanted.text.startswith("".join(data["text"] for _, data in updates))
    assert all(data["text"] for _, data in updates)


@pytest.mark.parametrize("name", ["greedy", "sample"])
def test_one_hypothesis_is_sent_token_by_token(server: RunningServer, generator: Generator, name: str) -> None:
    options = SEARCHES[name]
    wanted = generator.generate("a b c", **options)
    texts = [data["text"] for event, data in stream(server, inputs="a b c", **options) if event == "text"]
    assert len(texts) == len(wanted.text.split()) > 2
    assert "".join(texts) == wanted.text


def test_a_beam_sends_only_what_it_cannot_take_back(server: RunningServer, generator: Generator) -> None:
    """At least one text has to wait for hypotheses to die out, and at least one comes before the end."""
    counts = {}
    for text in ("a b c", "h g f e d", "g h a b", "c d e f g"):
        events = stream(server, inputs=text, beam=3, length_penalty=0.0)
        words = generator.generate(text, beam=3, length_penalty=0.0).text.split()
        counts[text] = (len([event for event, _ in events if event == "text"]), len(words))
    assert any(sent < words for sent, words in counts.values())
    assert any(sent > 0 for sent, _ in counts.values())


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("text", ["a b c", "h g f e d"])
def test_the_search_that_is_shown_is_the_tree_of_search(server: RunningServer, text: str, name: str) -> None:
    events = stream(server, inputs=text, search=True, **SEARCHES[name])
    shown = [node for event, data in events if event == "search" for node in data["nodes"]]
    answer = server.client.post("/v1/search", json={"inputs": text, **SEARCHES[name]})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    [tree] = found["output"]["trees"]
    assert [{**node, "winner": False} for node in tree["nodes"]] == shown
    assert [node["id"] for node in shown] == list(range(len(shown)))
    done = events[-1][1]["output"]
    assert done["trees"] == [tree]
    assert done["text"] == found["output"]["text"]
    check_tree(tree, found["output"])


def check_tree(tree: dict[str, Any], output: dict[str, Any]) -> None:
    """Sums, parents and statuses fit together, and the winner is the answer."""
    nodes = tree["nodes"]
    assert tree["steps"] == 1 + max(node["step"] for node in nodes)
    for node in nodes:
        parent = None if node["parent"] is None else nodes[node["parent"]]
        before = 0.0 if parent is None else parent["total"]
        assert node["total"] == pytest.approx(before + node["log_prob"], abs=1e-4)
        assert node["step"] == (0 if parent is None else parent["step"] + 1)
        assert parent is None or parent["status"] == "kept"
        assert node["status"] in ("kept", "pruned", "finished")
        assert (node["status"] == "finished") == (node["token"] == "</s>") or node["status"] == "pruned"
    winners = [node for node in nodes if node["winner"]]
    assert [node["token"] for node in winners] == output["tokens"]
    assert [node["log_prob"] for node in winners] == pytest.approx(output["log_probs"], abs=1e-4)


def test_the_parts_of_a_long_text_have_a_tree_each(server: RunningServer) -> None:
    events = stream(server, inputs=LONG, beam=3, search=True)
    parts = {data["part"] for event, data in events if event == "search"}
    trees = events[-1][1]["output"]["trees"]
    assert parts == set(range(len(trees)))
    assert len(parts) > 1
    for part, tree in enumerate(trees):
        shown = [node for event, data in events if event == "search" and data["part"] == part for node in data["nodes"]]
        assert shown == [{**node, "winner": False} for node in tree["nodes"]]


@pytest.mark.parametrize("name", ALONE)
def test_searches_that_show_no_steps_say_so(server: RunningServer, name: str) -> None:
    for field in ({"search": True}, {"return": ["tree"]}):
        answer = server.client.post("/v1/generate/stream", json={"inputs": "a", **ALONE[name], **field})
        assert answer.status_code == 422
        assert answer.json()["error"]["param"] == next(iter(field))


def test_what_return_adds(server: RunningServer, generator: Generator) -> None:
    [*_, (_, done)] = stream(server, inputs="a b c", **{"return": ["tokens", "log_probs", "attention", "tree"]})
    wanted = generator.generate("a b c")
    assert done["output"]["tokens"] == done["output"]["attention"]["tokens"] == wanted.tokens
    assert done["output"]["log_probs"] == pytest.approx(wanted.log_probs, abs=1e-5)
    assert len(done["output"]["trees"]) == 1


def test_a_language_model_begins_with_the_prompt(assorted: RunningServer, assorted_runs: dict[str, str]) -> None:
    events = stream(assorted, inputs="K L", model="rnn-lm", max_length=8)
    texts = [data["text"] for event, data in events if event == "text"]
    wanted = antiphon.load(assorted_runs["rnn-lm"]).generate("K L", max_length=8).text
    assert wanted.startswith("".join(texts))
    assert texts[0].startswith("K L")
    assert events[-1][1]["output"]["text"] == wanted


def test_a_form_may_ask_for_a_stream(server: RunningServer) -> None:
    answer = server.client.post("/v1/generate/stream", data={"inputs": "a b c", "search": "true", "beam": "2"})
    assert answer.status_code == 200
    assert answer.text.count("event: search") > 2


def test_a_client_that_leaves_takes_its_search_with_it(server: RunningServer) -> None:
    """The queue is empty again although the answer would have taken long."""
    body = {"inputs": "a b c", "min_length": 100_000, "max_length": 100_000}
    with server.client.stream("POST", "/v1/generate/stream", json=body) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: text"
    found = server.client.post("/v1/generate", json={"inputs": "a b c"})
    assert found.status_code == 200
    assert 'antiphon_queue_inputs{model="bahdanau"} 0.0' in server.client.get("/metrics").text
