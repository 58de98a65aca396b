"""The trace of a search: an observer sees every candidate, and from its record the search tree is built."""
# B sentences, C candidates

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from antiphon.search.constraints import IMPOSSIBLE
from antiphon.search.hypothesis import Candidates, Hypothesis

__all__ = ["Observer", "SearchTree", "TraceRecorder", "TreeNode", "candidate_list"]

Status = Literal["kept", "pruned", "finished"]


@dataclass(frozen=True)
class Candidate:
    """A candidate of one step of one sentence."""

    sentence: int
    step: int
    parent: int  # index of the hypothesis it extends among those kept in the step before, best first; -1 in step 0
    token: int
    log_prob: float  # of this token
    total: float  # the sum of log p of all tokens up to it, which decides what is pruned
    score: float  # total / length ^ length_penalty
    status: Status


class Observer(Protocol):
    """Receives the candidates of each step: sentence by sentence, best first."""

    @property
    def pruned(self) -> int:
        """The number of best pruned candidates to report, per sentence and step."""
        ...

    def __call__(self, candidates: list[Candidate], /) -> None: ...


def candidate_list(candidates: Candidates, sentences: Tensor, step: int, length_penalty: float) -> list[Candidate]:
    """The possible candidates [B, C] of these sentences [B]."""
    rows, columns = (candidates.totals > IMPOSSIBLE).nonzero(as_tuple=True)
    scores = candidates.totals / (step + 1) ** length_penalty
    fields = (candidates.selected, candidates.ended, candidates.slots)
    numbers = (candidates.tokens, candidates.log_probs, candidates.totals, scores)
    lists = [values[rows, columns].tolist() for values in (*fields, *numbers)]
    found = []
    for sentence, selected, ended, slot, token, log_prob, total, score in zip(
        sentences[rows].tolist(), *lists, strict=True
    ):
        status: Status = "finished" if ended else "kept" if selected else "pruned"
        found.append(Candidate(sentence, step, slot if step else -1, token, log_prob, total, score, status))
    return found


class TraceRecorder:
    """An observer that keeps all it sees of a search of one sentence."""

    def __init__(self, pruned: int) -> None:
        self.pruned = pruned
        self.steps: list[list[Candidate]] = []

    def __call__(self, candidates: list[Candidate], /) -> None:
        self.steps.append(candidates)


@dataclass(frozen=True)
class TreeNode:
    """A token in the search tree."""

    step: int
    token: int
    log_prob: float  # of this token
    total: float  # the sum of log p of all tokens up to it, which decides what is pruned
    score: float  # of all tokens up to it, normalised as the search does
    status: Status
    parent: int | None  # its index in the tree; None: the start
    winner: bool = False  # on the path to the best hypothesis


@dataclass(frozen=True)
class SearchTree:
    """All nodes, step by step, best first."""

    nodes: tuple[TreeNode, ...]

    @classmethod
    def from_trace(cls, steps: Sequence[Sequence[Candidate]], best: Hypothesis) -> SearchTree:
        """Build the tree from the steps of a TraceRecorder and the best hypothesis."""
        nodes: list[TreeNode] = []
        kept: list[int] = []  # the nodes kept in the step before, best first
        paths: list[tuple[int, ...]] = []  # the tokens up to each node
        for candidates in steps:
            first = len(nodes)
            for it in candidates:
                parent = kept[it.parent] if it.step else None
                path = (*(paths[parent] if parent is not None else ()), it.token)
                paths.append(path)
                won = it.status != "pruned" and best.tokens[: len(path)] == path
                nodes.append(TreeNode(it.step, it.token, it.log_prob, it.total, it.score, it.status, parent, won))
            kept = [index for index in range(first, len(nodes)) if nodes[index].status == "kept"]
        return cls(tuple(nodes))

    @property
    def steps(self) -> int:
        return 1 + max((node.step for node in self.nodes), default=-1)

    def nodes_at(self, step: int) -> list[int]:
        """The indices of the nodes of a step, best first."""
        return [index for index, node in enumerate(self.nodes) if node.step == step]
