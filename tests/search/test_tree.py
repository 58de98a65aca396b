"""The tree that is grown from what an observer is told, and its picture."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from table_model import TableModel, TableState, seeded_rows

from antiphon.plots import search_tree
from antiphon.plots.search_tree import draw_tree, tree_text
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
    return recorder.tree(answers[0]), answers


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


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(POLICIES))
def test_the_sum_at_a_node_is_that_of_its_path_and_decides(seed: int, policy: BeamPolicy) -> None:
    tree, _ = grown(seed, policy, 3)
    for node in tree.nodes:
        before = 0.0 if node.parent is None else tree.nodes[node.parent].total
        assert node.total == pytest.approx(before + node.log_prob, abs=1e-5)
        assert node.score == pytest.approx(node.total / (node.step + 1) ** 0.5, abs=1e-5)
    for step in range(tree.steps):
        found = [tree.nodes[n] for n in tree.nodes_at(step) if tree.nodes[n].token != END]  # </s> has rules of its own
        kept, pruned = ([node.total for node in found if node.status == status] for status in ("kept", "pruned"))
        assert min(kept, default=0.0) >= max(pruned, default=-99.0)


NAMES = ["</s>", "i", "a", "mmmmmmmmm", "word"]


def drawn(monkeypatch: pytest.MonkeyPatch, tree: SearchTree) -> Figure:
    figures: list[Figure] = []
    monkeypatch.setattr(search_tree.style, "save_figure", lambda figure, _: figures.append(figure))
    draw_tree(tree, [NAMES[node.token] for node in tree.nodes], Path("t.png"))
    return figures[0]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_no_arc_crosses_a_text_or_a_box(monkeypatch: pytest.MonkeyPatch, seed: int, policy: BeamPolicy) -> None:
    tree, _ = grown(seed, policy, 3)
    figure = drawn(monkeypatch, tree)
    figure.set_dpi(1200)  # as style.py measures
    renderer, (axes, *_) = FigureCanvasAgg(figure).get_renderer(), figure.axes
    texts = [*axes.texts]
    boxes = [text.get_window_extent(renderer) for text in texts]
    boxes += [patch.get_window_extent(renderer) for text in texts if (patch := text.get_bbox_patch())]
    assert len(boxes) > len(tree.nodes)
    for line, box in product(axes.lines, boxes):
        path = line.get_transform().transform_path(line.get_path())
        assert not path.intersects_bbox(Bbox.from_extents(box.x0, box.y0, box.x1, box.y1), filled=False), box


def test_picture_and_text_have_the_sum_and_log_p_of_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, _ = grown(3, ShrinkingBeam(2), 1)
    shown = [text.get_text() for text in drawn(monkeypatch, tree).axes[0].texts]
    for node in tree.nodes:
        for value in (node.log_prob, node.total):
            assert f"{value:.2f}".replace("-", "−") in shown
    lines = tree_text(tree, [NAMES[node.token] for node in tree.nodes], 200).splitlines()
    best = [node for node in tree.nodes if node.winner]
    assert [line for line in lines if line[0] == "*"][-1].endswith(
        f"</s>  {best[-1].log_prob:.2f}  sum {best[-1].total:.2f}  score {best[-1].score:.2f}"
    )
