"""The tree of a search: every candidate that was seen, whose child it is, and which way won."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from antiphon.decoding.hypothesis import Hypothesis
from antiphon.decoding.observer import Node

__all__ = ["Branch", "Tree", "Watcher"]


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
