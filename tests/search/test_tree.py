"""The tree that is grown from what an observer is told."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import TableModel, TableState, seeded_rows

from antiphon.search.beam import KeptRoom, Room, ShrinkingRoom, beam_search
from antiphon.search.hypothesis import Ask, Hypothesis
from antiphon.search.trace import Tree, Watcher

END, START, V = 0, 99, 5
ROOMS: list[Room] = [ShrinkingRoom(1), ShrinkingRoom(4), KeptRoom(3, 1.0)]


def grown(seed: int, room: Room, pruned: int) -> tuple[Tree, list[Hypothesis]]:
    watcher = Watcher(pruned)
    [answers] = beam_search(
        TableModel(seeded_rows(seed, V)),
        TableState.start(1),
        Ask(sentences=1, start=START, end=END, max_length=6, length_penalty=0.5),
        room=room,
        observer=watcher,
    )
    return Tree.grown(watcher.steps, answers[0]), answers


def way(tree: Tree, number: int) -> tuple[int, ...]:
    """The tokens from the start to a branch."""
    branch = tree.branches[number]
    return (*(() if branch.parent is None else way(tree, branch.parent)), branch.token)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(ROOMS), st.integers(0, 4))
def test_the_winner_is_the_best_answer_and_every_answer_is_a_way(seed: int, room: Room, pruned: int) -> None:
    tree, answers = grown(seed, room, pruned)
    winners = [number for number, branch in enumerate(tree.branches) if branch.winner]
    assert tuple(tree.branches[number].token for number in winners) == answers[0].tokens
    assert way(tree, winners[-1]) == answers[0].tokens
    ends = {way(tree, n): branch.score for n, branch in enumerate(tree.branches) if branch.status == "finished"}
    for answer in answers:
        if answer.finished:
            assert abs(ends[answer.tokens] - answer.score) < 1e-6


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_only_what_was_kept_has_children(seed: int) -> None:
    tree, _ = grown(seed, ShrinkingRoom(3), 2)
    for branch in tree.branches:
        assert (branch.parent is None) == (branch.step == 0)
        if branch.parent is not None:
            parent = tree.branches[branch.parent]
            assert (parent.status, parent.step) == ("kept", branch.step - 1)
    assert [len(tree.of_step(step)) for step in range(tree.steps)] == [
        sum(branch.step == step for branch in tree.branches) for step in range(tree.steps)
    ]
