"""The search tree as it is told to an observer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import TableModel, TableState, seeded_rows

from antiphon.search.beam import ShrinkingRoom, beam_search
from antiphon.search.hypothesis import Ask, Hypothesis
from antiphon.search.trace import Node

END, START, V = 0, 99, 5


class Notes:
    """Keeps every node."""

    def __init__(self, pruned: int) -> None:
        self.pruned = pruned
        self.steps: list[list[Node]] = []

    def __call__(self, nodes: list[Node]) -> None:
        self.steps.append(nodes)


def search(seed: int, size: int, notes: Notes | None, max_length: int = 6) -> list[list[Hypothesis]]:
    return beam_search(
        TableModel(seeded_rows(seed, V)),
        TableState.start(3),
        Ask(sentences=3, start=START, end=END, max_length=max_length, length_penalty=0.5),
        room=ShrinkingRoom(size),
        observer=notes,
    )


def rebuilt(notes: Notes, sentence: int) -> list[tuple[tuple[int, ...], bool, float]]:
    """Every path of kept nodes to a finished one, or to the last step."""
    paths: list[tuple[int, ...]] = []
    found = []
    for step, nodes in enumerate(notes.steps):
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
        if step == len(notes.steps) - 1:
            found += [(path, False, node.score) for path, node in after]
    return found


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 9))
def test_kept_and_finished_nodes_rebuild_the_hypotheses(seed: int, size: int, pruned: int) -> None:
    notes = Notes(pruned)
    answers = search(seed, size, notes)
    for sentence in range(3):
        expected = sorted((answer.tokens, answer.finished) for answer in answers[sentence])
        found = rebuilt(notes, sentence)
        assert sorted((path, finished) for path, finished, _ in found) == expected
        scores = {answer.tokens: answer.score for answer in answers[sentence]}
        assert all(score == pytest.approx(scores[path]) for path, _, score in found)


def test_watching_changes_nothing() -> None:
    assert search(7, 3, Notes(4)) == search(7, 3, None)


def test_every_candidate_can_be_seen() -> None:
    notes = Notes(1000)
    search(1, 2, notes, max_length=2)
    first = [node for node in notes.steps[0] if node.sentence == 0]
    assert sorted(node.token for node in first) == list(range(V))
    assert [node.status != "pruned" for node in first] == [True, True, False, False, False]
    assert sum(math.exp(node.log_prob) for node in first) == pytest.approx(1.0)
    assert {node.parent for node in first} == {-1}
    assert [node.score for node in first] == sorted((node.score for node in first), reverse=True)


def test_no_more_pruned_nodes_than_wanted() -> None:
    notes = Notes(0)
    search(1, 2, notes)
    kept_at_most = [sum(1 for node in nodes if node.sentence == 0) for nodes in notes.steps]
    assert max(kept_at_most) <= 2
