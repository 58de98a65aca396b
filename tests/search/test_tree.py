"""The tree that is grown from what an observer is told."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import TableModel, TableState, seeded_rows

from antiphon.search.beam import BeamPolicy, PatientBeam, ShrinkingBeam, beam_search
from antiphon.search.hypothesis import Hypothesis, SearchRequest
from antiphon.search.trace import SearchTree, TraceRecorder

END, START, V = 0, 99, 5
POLICIES: list[BeamPolicy] = [ShrinkingBeam(1), ShrinkingBeam(4), PatientBeam(3, 1.0)]


def grown(seed: int, policy: BeamPolicy, pruned: int) -> tuple[SearchTree, list[Hypothesis]]:
    recorder = TraceRecorder(pruned)
    [answers] = beam_search(
        TableModel(seeded_rows(seed, V)),
        TableState.start(1),
        SearchRequest(sentences=1, start=START, end=END, max_length=6, length_penalty=0.5),
        policy=policy,
        observer=recorder,
    )
    return SearchTree.from_trace(recorder.steps, answers[0]), answers


def way(tree: SearchTree, number: int) -> tuple[int, ...]:
    """The tokens from the start to a branch."""
    branch = tree.nodes[number]
    return (*(() if branch.parent is None else way(tree, branch.parent)), branch.token)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(POLICIES), st.integers(0, 4))
def test_the_winner_is_the_best_answer_and_every_answer_is_a_way(seed: int, policy: BeamPolicy, pruned: int) -> None:
    tree, answers = grown(seed, policy, pruned)
    winners = [number for number, branch in enumerate(tree.nodes) if branch.winner]
    assert tuple(tree.nodes[number].token for number in winners) == answers[0].tokens
    assert way(tree, winners[-1]) == answers[0].tokens
    ends = {way(tree, n): branch.score for n, branch in enumerate(tree.nodes) if branch.status == "finished"}
    for answer in answers:
        if answer.finished:
            assert abs(ends[answer.tokens] - answer.score) < 1e-6


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_only_what_was_kept_has_children(seed: int) -> None:
    tree, _ = grown(seed, ShrinkingBeam(3), 2)
    for branch in tree.nodes:
        assert (branch.parent is None) == (branch.step == 0)
        if branch.parent is not None:
            parent = tree.nodes[branch.parent]
            assert (parent.status, parent.step) == ("kept", branch.step - 1)
    assert [len(tree.nodes_at(step)) for step in range(tree.steps)] == [
        sum(branch.step == step for branch in tree.nodes) for step in range(tree.steps)
    ]
