"""The search tree as it is told to an observer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import TableModel, TableState, seeded_rows

from antiphon.search.beam import ShrinkingBeam, beam_search
from antiphon.search.hypothesis import Hypothesis, SearchRequest
from antiphon.search.trace import Candidate

END, START, V = 0, 99, 5


class Record:
    """Keeps every node."""

    def __init__(self, pruned: int) -> None:
        self.pruned = pruned
        self.steps: list[list[Candidate]] = []

    def __call__(self, nodes: list[Candidate]) -> None:
        self.steps.append(nodes)


def search(seed: int, size: int, record: Record | None, max_length: int = 6) -> list[list[Hypothesis]]:
    return beam_search(
        TableModel(seeded_rows(seed, V)),
        TableState.start(3),
        SearchRequest(sentences=3, start=START, end=END, max_length=max_length, length_penalty=0.5),
        policy=ShrinkingBeam(size),
        observer=record,
    )


def rebuilt(record: Record, sentence: int) -> list[tuple[tuple[int, ...], bool, float]]:
    """Every path of kept nodes to a finished one, or to the last step."""
    paths: list[tuple[int, ...]] = []
    found = []
    for step, nodes in enumerate(record.steps):
        own = [node for node in nodes if node.sentence == sentence]
        assert all(node.step == step for node in own)
        after = []
        for node in own:
            path = (*(paths[node.parent] if node.parent >= 0 else ()), node.token)
            if node.status == "finished":
                found.append((path, True, node.score))
            if node.status == "kept":
                after.append((path, node))
        paths = [path for path, _ in after]
        if step == len(record.steps) - 1:
            found += [(path, False, node.score) for path, node in after]
    return found


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 9))
def test_kept_and_finished_nodes_rebuild_the_hypotheses(seed: int, size: int, pruned: int) -> None:
    record = Record(pruned)
    answers = search(seed, size, record)
    for sentence in range(3):
        expected = sorted((answer.tokens, answer.finished) for answer in answers[sentence])
        found = rebuilt(record, sentence)
        assert sorted((path, finished) for path, finished, _ in found) == expected
        scores = {answer.tokens: answer.score for answer in answers[sentence]}
        assert all(score == pytest.approx(scores[path]) for path, _, score in found)


def test_watching_changes_nothing() -> None:
    assert search(7, 3, Record(4)) == search(7, 3, None)


def test_every_candidate_can_be_seen() -> None:
    record = Record(1000)
    search(1, 2, record, max_length=2)
    first = [node for node in record.steps[0] if node.sentence == 0]
    assert sorted(node.token for node in first) == list(range(V))
    assert [node.status != "pruned" for node in first] == [True, True, False, False, False]
    assert sum(math.exp(node.log_prob) for node in first) == pytest.approx(1.0)
    assert {node.parent for node in first} == {-1}
    assert [node.score for node in first] == sorted((node.score for node in first), reverse=True)


def test_no_more_pruned_nodes_than_wanted() -> None:
    record = Record(0)
    search(1, 2, record)
    kept_at_most = [sum(1 for node in nodes if node.sentence == 0) for nodes in record.steps]
    assert max(kept_at_most) <= 2
