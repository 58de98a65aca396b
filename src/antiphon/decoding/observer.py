"""The search tree, for those who want to see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from antiphon.decoding.constraints import IMPOSSIBLE
from antiphon.decoding.frontier import Candidates

__all__ = ["Node", "Observer", "nodes_of"]


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
