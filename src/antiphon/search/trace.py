"""The tree of a search: every candidate that was seen, whose child it is, and which way won."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from antiphon.search.constraints import IMPOSSIBLE
from antiphon.search.hypothesis import Candidates, Hypothesis

__all__ = ["Branch", "Node", "Observer", "Tree", "Watcher", "nodes_of"]

# The search tree, for those who want to see it.


@dataclass(frozen=True)
class Node:
    """A candidate of one step of one sentence."""

    sentence: int
    step: int
    parent: int  # which of the nodes kept in the step before (from 0, best first) it extends; -1 in step 0
    token: int
    log_prob: float  # of this token
    score: float  # of all tokens up to it: sum(log p) / length ^ length_penalty
    status: Literal["kept", "pruned", "finished"]


class Observer(Protocol):
    """Is told the nodes of each step: sentence by sentence, best first."""

    @property
    def pruned(self) -> int:
        """How many of the best candidates that are dropped it wants to see, per sentence and step."""
        ...

    def __call__(self, nodes: list[Node], /) -> None:
        """Receives the nodes of one step."""
        ...


def nodes_of(chosen: Candidates, sentences: Tensor, step: int, length_penalty: float) -> list[Node]:
    """The possible candidates [B, C] of these sentences [B]."""
    rows, columns = (chosen.totals > IMPOSSIBLE).nonzero(as_tuple=True)
    scores = chosen.totals / (step + 1) ** length_penalty
    columns_of = (chosen.slots, chosen.tokens, chosen.log_probs, scores, chosen.taken, chosen.ended)
    lists = [values[rows, columns].tolist() for values in columns_of]
    nodes = []
    for sentence, slot, token, log_prob, score, taken, ended in zip(sentences[rows].tolist(), *lists, strict=True):
        status: Literal["kept", "pruned", "finished"] = "finished" if ended else "kept" if taken else "pruned"
        nodes.append(Node(sentence, step, slot if step else -1, token, log_prob, score, status))
    return nodes


@dataclass(frozen=True)
class Branch:
    """A token that was tried after others."""

    step: int
    token: int
    log_prob: float  # of this token
    score: float  # of all tokens up to it, normalised as the search does
    status: Literal["kept", "pruned", "finished"]
    parent: int | None  # its number in the tree; None: the start
    winner: bool = False  # on the way to the best answer


class Watcher:
    """Keeps what a search of one sentence tells, with so many pruned candidates a step."""

    def __init__(self, pruned: int) -> None:
        self.pruned = pruned
        self.steps: list[list[Node]] = []

    def __call__(self, nodes: list[Node], /) -> None:
        self.steps.append(nodes)


@dataclass(frozen=True)
class Tree:
    """All branches, step by step, best first."""

    branches: tuple[Branch, ...]

    @classmethod
    def grown(cls, steps: Sequence[Sequence[Node]], best: Hypothesis) -> Tree:
        """From what a Watcher has seen, and the answer that won."""
        branches: list[Branch] = []
        going: list[int] = []  # the branches kept in the step before, best first
        ways: list[tuple[int, ...]] = []  # the tokens up to each branch
        for nodes in steps:
            first = len(branches)
            for node in nodes:
                parent = going[node.parent] if node.step else None
                way = (*(ways[parent] if parent is not None else ()), node.token)
                ways.append(way)
                won = node.status != "pruned" and best.tokens[: len(way)] == way
                branches.append(
                    Branch(node.step, node.token, node.log_prob, node.score, node.status, parent, winner=won)
                )
            going = [n for n in range(first, len(branches)) if branches[n].status == "kept"]
        return cls(tuple(branches))

    @property
    def steps(self) -> int:
        return 1 + max((branch.step for branch in self.branches), default=-1)

    def of_step(self, step: int) -> list[int]:
        """The numbers of a step's branches, best first."""
        return [number for number, branch in enumerate(self.branches) if branch.step == step]
