"""The trace of a search: an observer sees every candidate, and from its record the search tree is built."""
# B sentences, C candidates

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal, Protocol

from torch import Tensor

from antiphon.search.constraints import IMPOSSIBLE
from antiphon.search.hypothesis import Candidates, Hypothesis

__all__ = [
    "Candidate", "Observer", "SearchTree", "ShiftedObserver", "Status", "TraceRecorder", "TreeNode", "candidate_list",
]  # fmt: skip

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
    rank: int  # among the candidates of its sentence and step, from 1 for the best


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
    ranks: Counter[int] = Counter()
    for sentence, selected, ended, slot, token, log_prob, total, score in zip(
        sentences[rows].tolist(), *lists, strict=True
    ):
        status: Status = "finished" if ended else "kept" if selected else "pruned"
        ranks[sentence] += 1
        parent, rank = slot if step else -1, ranks[sentence]
        found.append(Candidate(sentence, step, parent, token, log_prob, total, score, status, rank))
    return found


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
    rank: int = 1  # among the candidates of its step, from 1 for the best
    forced: bool = False  # it belongs to the prefix that every answer begins with
    winner: bool = False  # on the path to the best hypothesis


@dataclass(frozen=True)
class SearchTree:
    """All nodes, step by step, best first."""

    nodes: tuple[TreeNode, ...]

    @property
    def steps(self) -> int:
        return 1 + max((node.step for node in self.nodes), default=-1)

    def nodes_at(self, step: int) -> list[int]:
        """The indices of the nodes of a step, best first."""
        return [index for index, node in enumerate(self.nodes) if node.step == step]


class ShiftedObserver:
    """An observer of a search that continues another one, of a single hypothesis."""

    def __init__(self, observer: Observer, steps: int, log_prob: float, length_penalty: float) -> None:
        self.observer, self.steps, self.log_prob, self.length_penalty = observer, steps, log_prob, length_penalty

    @property
    def pruned(self) -> int:
        return self.observer.pruned

    def __call__(self, candidates: list[Candidate], /) -> None:
        shifted = []
        for it in candidates:
            step, total = it.step + self.steps, it.total + self.log_prob
            score = total / (step + 1) ** self.length_penalty
            shifted.append(replace(it, step=step, total=total, score=score, parent=max(it.parent, 0 if step else -1)))
        self.observer(shifted)


class TraceRecorder:
    """An observer that builds the tree of a search of one sentence while it goes on."""

    def __init__(self, pruned: int, forced: int = 0) -> None:
        """`forced` is the number of tokens that every answer begins with."""
        self.pruned, self.forced = pruned, forced
        self.nodes: list[TreeNode] = []  # step by step, best first
        self._paths: list[tuple[int, ...]] = []  # the tokens up to each node
        self._kept: list[int] = []  # the nodes kept in the last step, best first
        self._finished: list[int] = []

    def __call__(self, candidates: list[Candidate], /) -> None:
        first = len(self.nodes)
        for it in candidates:
            parent = self._kept[it.parent] if it.parent >= 0 else None
            self._paths.append((*(self._paths[parent] if parent is not None else ()), it.token))
            self.nodes.append(
                TreeNode(
                    step=it.step,
                    token=it.token,
                    log_prob=it.log_prob,
                    total=it.total,
                    score=it.score,
                    status=it.status,
                    parent=parent,
                    rank=it.rank,
                    forced=it.step < self.forced,
                )
            )
        new = range(first, len(self.nodes))
        self._kept = [index for index in new if self.nodes[index].status == "kept"]
        self._finished += [index for index in new if self.nodes[index].status == "finished"]

    @property
    def stable_prefix(self) -> tuple[int, ...]:
        """The tokens that all hypotheses have in common which may still become the answer."""
        paths = [self._paths[index] for index in (*self._kept, *self._finished)]
        alike = takewhile(lambda tokens: len(set(tokens)) == 1, zip(*paths, strict=False))
        return tuple(tokens[0] for tokens in alike)

    def tree(self, best: Hypothesis) -> SearchTree:
        """The whole tree, in which the path to the best hypothesis is marked."""
        rows = zip(self.nodes, self._paths, strict=True)
        won = [node.status != "pruned" and best.tokens[: len(path)] == path for node, path in rows]
        return SearchTree(tuple(replace(node, winner=one) for node, one in zip(self.nodes, won, strict=True)))
