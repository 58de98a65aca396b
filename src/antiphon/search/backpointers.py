"""Backpointers of a beam search: from the end of a hypothesis to its start."""
# B open sentences, C candidates of each, M hypotheses, T steps

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.search.hypothesis import Hypothesis

__all__ = ["Backpointers"]


@dataclass(frozen=True)
class _Expansion:
    """The candidates of one step, flat: the node of the step before that each extends, and what it adds."""

    parents: Tensor
    tokens: Tensor
    log_probs: Tensor


@dataclass(frozen=True)
class _Ends:
    """Hypotheses that ended together: their sentences and their nodes in step `last` (-1: before the first)."""

    sentences: Tensor
    nodes: Tensor
    last: int
    finished: bool


class Backpointers:
    """The candidates of every step as tensors; hypotheses are rebuilt once, at the end, all together."""

    def __init__(self) -> None:
        self._steps: list[_Expansion] = []
        self._ends: list[_Ends] = []

    def add(self, parents: Tensor, tokens: Tensor, log_probs: Tensor) -> Tensor:
        """Add a step, each [B, C]; return the nodes [B, C] that the next step refers to as parents."""
        self._steps.append(_Expansion(parents.flatten(), tokens.flatten(), log_probs.flatten()))
        return torch.arange(tokens.numel(), device=tokens.device).view(tokens.shape)

    def close(self, sentences: Tensor, nodes: Tensor, where: Tensor, *, finished: bool, back: int = 0) -> None:
        """End hypotheses at nodes [B, C] of the last step (or `back` steps before), where True."""
        rows, columns = where.nonzero(as_tuple=True)
        if rows.numel():
            self._ends.append(_Ends(sentences[rows], nodes[rows, columns], len(self._steps) - 1 - back, finished))

    def hypotheses(self, sentences: int, length_penalty: float) -> list[list[Hypothesis]]:
        """All that ended, by sentence: finished before unfinished, then by score, then in the order they ended."""
        found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        tokens, log_probs = self._trace_back()
        row = 0
        for ends in self._ends:
            for sentence in ends.sentences.tolist():
                own, values = tokens[row, : ends.last + 1].tolist(), log_probs[row, : ends.last + 1].tolist()
                hypothesis = Hypothesis.of(own, values, finished=ends.finished, length_penalty=length_penalty)
                found[sentence].append(hypothesis)
                row += 1
        for hypotheses in found:
            hypotheses.sort(key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
        return found

    def _trace_back(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Tokens and log probabilities of all hypotheses [M, T]; of each row only the first `last + 1` count."""
        count, steps = sum(ends.nodes.numel() for ends in self._ends), len(self._steps)
        tokens = np.zeros((count, steps), dtype=np.int64)
        log_probs = np.zeros((count, steps), dtype=np.float64)
        nodes = np.concatenate([ends.nodes.cpu().numpy() for ends in self._ends] or [np.zeros(0, dtype=np.int64)])
        last = np.repeat([ends.last for ends in self._ends], [ends.nodes.numel() for ends in self._ends])
        for position in reversed(range(steps)):
            step = self._steps[position]
            rows = np.flatnonzero(last >= position)
            tokens[rows, position] = step.tokens.cpu().numpy()[nodes[rows]]
            log_probs[rows, position] = step.log_probs.cpu().double().numpy()[nodes[rows]]
            nodes[rows] = step.parents.cpu().numpy()[nodes[rows]]
        return tokens, log_probs
