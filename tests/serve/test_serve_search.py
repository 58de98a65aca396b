"""A search over HTTP: its tree at once or as it grows, from any prefix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from running_server import RunningServer

import antiphon
from antiphon.inference.token_tree import TokenTree
from antiphon.plots.search_tree import draw_trace

Events = list[tuple[str, dict[str, Any]]]


def stream(server: RunningServer, body: dict[str, Any]) -> Events:
    """The events of a search."""
    with server.client.stream("POST", "/v1/generate/stream", json=body) as answer:
        assert answer.status_code == 200, answer.read()
        blocks = "".join(answer.iter_text()).strip().split("\n\n")
    lines = [block.split("\n", 1) for block in blocks]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in lines]


def nodes_of(events: Events) -> list[dict[str, Any]]:
    return [node for name, data in events if name == "search" for node in data["nodes"]]


@pytest.mark.parametrize("prefix", [[], [5], [5, 4, 7]])
@pytest.mark.parametrize("beam", range(1, 10))
def test_the_tree_of_the_stream_is_that_of_the_search(server: RunningServer, beam: int, prefix: list[int]) -> None:
    body = {"inputs": "a b c", "beam": beam, "prefix": prefix, "pruned": beam % 4}
    events = stream(server, {**body, "search": True, "return": ["token_ids"]})
    name, last = events[-1]
    assert name == "done"
    whole = server.client.post("/v1/search", json=body).json()["output"]
    [tree] = whole["trees"]
    assert last["output"]["trees"] == whole["trees"]
    assert [{**node, "winner": None} for node in nodes_of(events)] == [
        {**node, "winner": None} for node in tree["nodes"]
    ]
    assert [node["token_id"] for node in tree["nodes"] if node["forced"]] == prefix
    assert last["output"]["token_ids"] == whole["token_ids"]
    assert whole["token_ids"][: len(prefix)] == prefix
    assert [node["token_id"] for node in tree["nodes"] if node["winner"]] == whole["token_ids"]


def test_one_format_for_the_api_and_for_files(server: RunningServer, bahdanau_run: str, tmp_path: Path) -> None:
    body = {"inputs": "a b c", "beam": 4, "prefix": [5], "pruned": 2, "length_penalty": 0.5}
    [found] = server.client.post("/v1/search", json=body).json()["output"]["trees"]
    (tmp_path / "trace.json").write_text(json.dumps(found))
    kept = TokenTree.read(tmp_path / "trace.json")
    assert kept.as_dict() == found
    wanted = antiphon.load(bahdanau_run).tree("a b c", prefix=[5], beam=4, pruned=2, length_penalty=0.5)
    assert (kept.model, kept.options, kept.prefix, kept.source) == ("bahdanau", wanted.options, [5], "a b c")
    assert (kept.symbols, kept.answer, kept.source_tokens) == (wanted.symbols, wanted.answer, wanted.source_tokens)
    assert [node.total for node in kept.tree.nodes] == pytest.approx([node.total for node in wanted.tree.nodes])
    draw_trace(kept, tmp_path / "tree.svg")


def test_a_prefix_of_all_but_the_end_goes_on_from_any_node(server: RunningServer) -> None:
    """Each node of a tree can be the beginning of another search, those that were pruned, too."""
    tree = server.client.post("/v1/search", json={"inputs": "a b c", "beam": 3}).json()["output"]["trees"][0]
    by_id = {node["id"]: node for node in tree["nodes"]}

    def path(node: dict[str, Any] | None) -> list[int]:
        return [] if node is None else [*path(by_id.get(node["parent"])), node["token_id"]]

    pruned = [node for node in tree["nodes"] if node["status"] == "pruned" and node["token"] != "</s>"]
    assert pruned
    for node in pruned:
        body = {"inputs": "a b c", "beam": 3, "prefix": path(node), "return": ["attention", "heads"]}
        output = server.client.post("/v1/search", json=body).json()["output"]
        last = [one for one in output["trees"][0]["nodes"] if one["forced"]][-1]
        assert (last["token_id"], last["total"]) == (node["token_id"], pytest.approx(node["total"], abs=1e-5))
        assert len(output["heads"]["cross"][0][0]) == len(output["token_ids"])


def test_a_sample_has_a_tree(server: RunningServer) -> None:
    body = {"inputs": "a b c", "sample": True, "seed": 4, "pruned": 5}
    output = server.client.post("/v1/search", json=body).json()["output"]
    nodes = output["trees"][0]["nodes"]
    assert [node["token_id"] for node in nodes if node["winner"]] == output["token_ids"]
    assert {node["step"] for node in nodes if node["status"] == "pruned"} == {node["step"] for node in nodes}
    plain = server.client.post("/v1/generate", json={"inputs": "a b c", "sample": True, "seed": 4}).json()
    assert plain["outputs"]["text"] == output["text"]
