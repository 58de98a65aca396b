"""The trace of a search can be kept, read and drawn again; what is no trace is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from file_generators import COUNT, FEATURES, file_generator
from tiny_generators import tiny_folder
from untrained_models import untrained_generator

import antiphon
from antiphon.errors import UserError
from antiphon.inference.streaming import watch_answer
from antiphon.inference.token_tree import TokenTree
from antiphon.inference.trace_record import TraceRecord
from antiphon.plots.search_tree import draw_trace


@pytest.fixture(scope="module")
def trace() -> TokenTree:
    generator = untrained_generator()
    return generator.tree("a b c", prefix=[5], beam=3, length_penalty=0.6, patience=1.0, forbid=["K L", "O"])


def test_it_has_what_is_needed_to_draw_it(trace: TokenTree) -> None:
    record = trace.as_dict()
    assert record.keys() == TraceRecord.model_fields.keys()
    assert (record["source"], record["source_tokens"]) == ("a b c", ["a", "b", "c", "</s>"])
    assert record["options"] == {
        "beam": 3, "max_length": 10, "length_penalty": 0.6, "patience": 1.0, "forbid": ["K L", "O"],
    }  # fmt: skip
    assert record["prefix"] == [5]
    best = [node for node in record["nodes"] if node["winner"]]
    assert record["answer"] == " ".join(node["token"] for node in best if node["token"] != "</s>")
    assert record["steps"] == best[-1]["step"] + 1 or any(node["step"] > best[-1]["step"] for node in record["nodes"])


def test_it_comes_back_as_it_was(trace: TokenTree, tmp_path: Path) -> None:
    trace.write(tmp_path / "trace.json")
    again = TokenTree.read(tmp_path / "trace.json")
    assert again == trace
    for kept, name in ((trace, "a"), (again, "b")):
        draw_trace(kept, tmp_path / f"{name}.svg")
        draw_trace(kept, tmp_path / f"{name}.json")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "trace.json").read_bytes()


def test_the_model_is_named_by_its_folder(tmp_path: Path) -> None:
    folder = tiny_folder("bahdanau", tmp_path / "named")
    found = antiphon.tree(folder, "a b", tmp_path / "trace.json", beam=2)
    assert TokenTree.read(tmp_path / "trace.json") == found
    assert found.model == "named"


def test_of_a_sample_and_of_an_empty_part() -> None:
    generator = untrained_generator()
    pipeline = generator.pipeline(generator.search_options({"sample": True, "top_k": 3}))
    [text, empty] = generator.prepare(["a b", ""], [[], []], pipeline)
    [sample] = watch_answer(generator, text, pipeline, pruned=2).trees
    assert sample.options == {
        "sample": True, "temperature": 1.0, "seed": 1, "max_length": 10, "top_k": 3, "length_penalty": 1.0,
    }  # fmt: skip
    [nothing] = watch_answer(generator, empty, pipeline).trees
    assert (nothing.as_dict()["nodes"], nothing.source_tokens, nothing.answer) == ([], [], "")
    for tree in (sample, nothing):
        assert TokenTree.from_dict(json.loads(json.dumps(tree.as_dict()))) == tree


def test_a_file_is_shown_by_its_kind(tmp_path: Path) -> None:
    found = file_generator(tmp_path, [FEATURES, COUNT]).tree(f"{tmp_path / 'arrays' / '0.npy'}\t2", beam=2)
    assert found.source == "features | 2"
    assert str(tmp_path) not in json.dumps(found.as_dict())


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"format": 2}, "a trace of format 2, this version reads 1; use the version that wrote it"),
        ({"nodes": None}, r"not the trace of a search \(nodes: input should be a valid list\); write one with"),
        ({"nodes": [{}]}, r"not the trace of a search \(nodes.0.id: field required\)"),
        ({"parent": 1}, r"nodes.1: it does not continue its parent"),
        ({"parent": -1}, r"nodes.1: it does not continue its parent"),
        ({"step": 3}, r"nodes.1: it does not continue its parent"),
        ({"status": "lost"}, r"nodes.1.status: input should be 'kept', 'pruned' or 'finished'"),
        ({"log_prob": "x"}, r"nodes.1.log_prob"),
    ],
)
def test_what_is_no_trace(trace: TokenTree, change: dict[str, Any], fact: str) -> None:
    record = trace.as_dict()
    if change.keys() <= record.keys():
        record |= change
    else:
        record["nodes"][1] |= change
    with pytest.raises(UserError, match=fact):
        TokenTree.from_dict(record)


@pytest.mark.parametrize("text", ["", "[1]", "null", "{", '{"format": 1}', "\xff"])
def test_what_is_no_trace_in_a_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError) as caught:
        TokenTree.read(path)
    assert str(caught.value).startswith(f"{path}: not ")
    with pytest.raises(UserError, match="cannot be read"):
        TokenTree.read(tmp_path / "nowhere.json")
