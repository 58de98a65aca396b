"""The way back from the end of a hypothesis to its start."""
# B sentences still open, C candidates of each, M hypotheses, T steps

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.search.hypothesis import Hypothesis

__all__ = ["Trail"]


@dataclass(frozen=True)
class _Link:
    """What was chosen in one step, flat: the candidate of the step before that it extends, and what it adds."""

    parents: Tensor
    tokens: Tensor
    log_probs: Tensor


@dataclass(frozen=True)
class _End:
    """Hypotheses that left: their sentences, their last nodes in step `last` (-1: before the first), best first."""

    sentences: Tensor
    nodes: Tensor
    last: int
    finished: bool


class Trail:
    """Every step's choices as tensors; hypotheses are rebuilt once, at the end, all together."""

    def __init__(self) -> None:
        self._links: list[_Link] = []
        self._ends: list[_End] = []

    def add(self, parents: Tensor, tokens: Tensor, log_probs: Tensor) -> Tensor:
        """Adds a step, each [B, C]; returns the nodes [B, C] by which the next step names these as parents."""
        self._links.append(_Link(parents.flatten(), tokens.flatten(), log_probs.flatten()))
        return torch.arange(tokens.numel(), device=tokens.device).view(tokens.shape)

    def close(self, sentences: Tensor, nodes: Tensor, where: Tensor, *, finished: bool, back: int = 0) -> None:
        """Hypotheses that end at nodes [B, C] of the last step (or `back` steps before), where True."""
        rows, columns = where.nonzero(as_tuple=True)
        if rows.numel():
            self._ends.append(_End(sentences[rows], nodes[rows, columns], len(self._links) - 1 - back, finished))

    def hypotheses(self, sentences: int, length_penalty: float) -> list[list[Hypothesis]]:
        """All that ended, by sentence: finished before unfinished, then by score, then in the order they ended."""
        found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        tokens, log_probs = self._rebuild()
        row = 0
        for end in self._ends:
            for sentence in end.sentences.tolist():
                words, values = tokens[row, : end.last + 1].tolist(), log_probs[row, : end.last + 1].tolist()
                hypothesis = Hypothesis.of(words, values, finished=end.finished, length_penalty=length_penalty)
                found[sentence].append(hypothesis)
                row += 1
        for answers in found:
            answers.sort(key=lambda answer: (not answer.finished, -answer.score))
        return found

    def _rebuild(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Follows all hypotheses back at once: tokens and log probabilities [M, T]; only the first `last + 1` count."""
        count, steps = sum(end.nodes.numel() for end in self._ends), len(self._links)
        tokens = np.zeros((count, steps), dtype=np.int64)
        log_probs = np.zeros((count, steps), dtype=np.float64)
        nodes = np.concatenate([end.nodes.cpu().numpy() for end in self._ends] or [np.zeros(0, dtype=np.int64)])
        last = np.repeat([end.last for end in self._ends], [end.nodes.numel() for end in self._ends])
        for position in reversed(range(steps)):
            link = self._links[position]
            on = np.flatnonzero(last >= position)
            tokens[on, position] = link.tokens.cpu().numpy()[nodes[on]]
            log_probs[on, position] = link.log_probs.cpu().double().numpy()[nodes[on]]
            nodes[on] = link.parents.cpu().numpy()[nodes[on]]
        return tokens, log_probs
