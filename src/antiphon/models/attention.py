"""Attention: score, alignment (how scores become weights), and the context c_i = Σ_j α_ij h_j."""
# B batch, Q queries, S source steps, D query size, H state size, A inner size
# B batch, Q queries, S source steps, R rows, T steps
# B sentences, R = B x hypotheses rows, T steps, S source steps, D query size, H state size

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize, one_hot

from antiphon.sequence import Memory

__all__ = [
    "AdditiveScore",
    "Aligned",
    "Alignment",
    "Attended",
    "AttentionContext",
    "BilinearScore",
    "ConcatScore",
    "CosineScore",
    "DotScore",
    "Drawn",
    "EqualSizes",
    "HardAlignment",
    "ScaledDotScore",
    "Score",
    "SoftAlignment",
    "SourceSide",
]

SHORTEST = 1e-4


class Score(nn.Module, ABC):
    """score(s, h) for every query and every source position.

    `query` and `key` are the sizes of s and h; `size` is the inner size of those scores that have one.
    """

    def __init__(self, *, query: int, key: int, size: int) -> None:  # noqa: ARG002 (what every score is told)
        super().__init__()

    def prepare(self, states: Tensor) -> Tensor:
        """The part of the formula that knows only the source: [B, S, H] → keys."""
        return states

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Queries [B, Q, D] and keys → scores [B, Q, S]."""


class EqualSizes(Score):
    """A score that compares s and h number by number."""

    def __init__(self, *, query: int, key: int, size: int) -> None:
        super().__init__(query=query, key=key, size=size)
        if query != key:
            raise ValueError(f"{type(self).__name__} needs states of equal size, not {query} and {key}")


class DotScore(EqualSizes):
    """score(s, h) = s · h"""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query, keys.transpose(1, 2))


class ScaledDotScore(EqualSizes):
    """score(s, h) = s · h / √d, d the size of both: scores do not grow with the size"""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query / math.sqrt(query.size(-1)), keys.transpose(1, 2))


class CosineScore(EqualSizes):
    """score(s, h) = s · h / (|s| |h|), from -1 to 1

    A vector shorter than 0.0001 is divided by that instead: a zero vector scores 0, and no gradient is without bound.
    """

    def prepare(self, states: Tensor) -> Tensor:
        return normalize(states, dim=-1, eps=SHORTEST)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(normalize(query, dim=-1, eps=SHORTEST), keys.transpose(1, 2))


class BilinearScore(Score):
    """score(s, h) = s · W h; the sizes of s and h may differ"""

    def __init__(self, *, query: int, key: int, size: int) -> None:
        super().__init__(query=query, key=key, size=size)
        self.W = nn.Linear(key, query, bias=False)

    def prepare(self, states: Tensor) -> Tensor:
        keys: Tensor = self.W(states)  # [B, S, D]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query, keys.transpose(1, 2))


class AdditiveScore(Score):
    """score(s, h) = v · tanh(W s + U h)"""

    def __init__(self, *, query: int, key: int, size: int) -> None:
        super().__init__(query=query, key=key, size=size)
        self.W = nn.Linear(query, size)
        self.U = nn.Linear(key, size, bias=False)
        self.v = nn.Linear(size, 1, bias=False)

    def prepare(self, states: Tensor) -> Tensor:
        keys: Tensor = self.U(states)  # [B, S, A]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        left = self.W(query).unsqueeze(2)  # [B, Q, 1, A]
        scores: Tensor = self.v(torch.tanh(left + keys.unsqueeze(1))).squeeze(-1)  # [B, Q, S]
        return scores


class ConcatScore(Score):
    """score(s, h) = w2 · tanh(W1 [s; h])

    Never computed so: W1 [s; h] = W_s s + W_h h, the left and the right columns of W1, and W_h h is the same for every
    query. What is left of the difference to the additive score is that W1 is one matrix with one initialisation.
    """

    def __init__(self, *, query: int, key: int, size: int) -> None:
        super().__init__(query=query, key=key, size=size)
        self.query = query
        self.W1 = nn.Linear(query + key, size)
        self.w2 = nn.Linear(size, 1, bias=False)

    def prepare(self, states: Tensor) -> Tensor:
        return linear(states, self.W1.weight[:, self.query :], self.W1.bias)  # [B, S, A]

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        left = linear(query, self.W1.weight[:, : self.query]).unsqueeze(2)  # [B, Q, 1, A]
        scores: Tensor = self.w2(torch.tanh(left + keys.unsqueeze(1))).squeeze(-1)  # [B, Q, S]
        return scores


# How scores become weights: soft, or hard.


@dataclass(frozen=True)
class Drawn:
    """Positions drawn at random: log p of each draw, and the entropy of what it was drawn from; both [R, T]."""

    log_probs: Tensor
    entropy: Tensor

    def reshape(self, rows: int, steps: int) -> Drawn:
        return Drawn(self.log_probs.reshape(rows, steps), self.entropy.reshape(rows, steps))

    @classmethod
    def joined(cls, parts: list[Drawn | None]) -> Drawn | None:
        """The draws of some steps, then those of the next; None where nothing was drawn."""
        drawn = [part for part in parts if part is not None]
        if not drawn:
            return None
        return cls(
            torch.cat([part.log_probs for part in drawn], dim=1), torch.cat([part.entropy for part in drawn], dim=1)
        )


@dataclass(frozen=True)
class Aligned:
    """The weights [B, Q, S]; where they were drawn at random, also how [B, Q]."""

    weights: Tensor
    drawn: Drawn | None = None


class Alignment(nn.Module, ABC):
    """score_ij → α_ij"""

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor) -> Aligned:
        """Scores [B, Q, S] and mask [B, S]; padding gets exactly 0."""


class SoftAlignment(Alignment):
    """α_ij = softmax_j(score_ij) over the real positions"""

    def forward(self, scores: Tensor, mask: Tensor) -> Aligned:
        return Aligned(torch.softmax(scores.masked_fill(~mask.unsqueeze(1), float("-inf")), dim=-1))


class HardAlignment(Alignment):
    """α_ij = [j = a_i], one position a_i for each query: a_i ~ softmax_j(score_ij) in training, argmax_j in use

    No gradient passes through a draw; `training/step.py` makes one from what is handed out about it. The
    baseline b that rewards are compared with is kept here, beside the weights, so that it is saved with them.
    """

    baseline: Tensor

    def __init__(self, *, decay: float, entropy: float) -> None:
        super().__init__()
        self.decay = decay
        self.entropy_weight = entropy
        self.register_buffer("baseline", torch.zeros(()))

    def forward(self, scores: Tensor, mask: Tensor) -> Aligned:
        padding = ~mask.unsqueeze(1)  # [B, 1, S]
        if not self.training:
            return Aligned(_one_hot(scores.masked_fill(padding, float("-inf")).argmax(dim=-1), scores))
        log_probs = torch.log_softmax(scores.masked_fill(padding, float("-inf")), dim=-1)
        position = self.draw(scores.detach(), padding)  # [B, Q]
        entropy = -(log_probs.exp() * log_probs.masked_fill(padding, 0.0)).sum(dim=-1)
        log_prob = log_probs.gather(-1, position.unsqueeze(-1)).squeeze(-1)
        return Aligned(_one_hot(position, scores), Drawn(log_prob, entropy))

    def draw(self, scores: Tensor, padding: Tensor) -> Tensor:
        """One position for each query [B, Q]: argmax_j(score_j + g_j) with Gumbel noise g is a draw from the softmax.

        Padding is set aside after the noise, so that no noise can bring it back.
        """
        noise = -torch.empty_like(scores).exponential_().log()
        return (scores + noise).masked_fill(padding, float("-inf")).argmax(dim=-1)

    @torch.no_grad()
    def observe(self, mean: Tensor) -> None:
        """b ← decay · b + (1 - decay) · mean log p per token; a batch without a finite mean leaves it as it is."""
        if bool(torch.isfinite(mean)):
            self.baseline.mul_(self.decay).add_((1.0 - self.decay) * mean)


def _one_hot(position: Tensor, scores: Tensor) -> Tensor:
    """Positions [B, Q] → weights [B, Q, S]."""
    return one_hot(position, scores.size(-1)).to(scores.dtype)


# Attention as a context: c_i = Σ_j α_ij h_j, new at every step.


@dataclass(frozen=True)
class SourceSide:
    """All that decoding needs of the source, computed once per sentence and shared by its hypotheses."""

    keys: Tensor  # [B, S, ...], whatever the score prepared
    values: Tensor  # [B, S, H]
    mask: Tensor  # [B, S]
    copies: Tensor | None = None  # [B, S]: the target token that each position is, for a decoder that copies

    def select(self, sentences: Tensor) -> SourceSide:
        copies = None if self.copies is None else self.copies[sentences]
        return SourceSide(self.keys[sentences], self.values[sentences], self.mask[sentences], copies)

    def of_hypotheses(self, rows: Tensor, before: int) -> SourceSide:
        """What the sentences of rows [B', k] share, when there were so many hypotheses before.

        While every sentence stays nothing is copied: sentences only ever leave, in order.
        """
        sentences = rows[:, 0] // (before // self.mask.size(0))
        return self if sentences.numel() == self.mask.size(0) else self.select(sentences)


@dataclass(frozen=True)
class Attended:
    """The context [R, T, H] and the weights it was made with [R, T, S]; where they were drawn, also how [R, T]."""

    context: Tensor
    weights: Tensor
    drawn: Drawn | None = None

    @classmethod
    def joined(cls, looks: list[Attended]) -> Attended:
        """The looks of some steps, then those of the next."""
        return cls(
            context=torch.cat([look.context for look in looks], dim=1),
            weights=torch.cat([look.weights for look in looks], dim=1),
            drawn=Drawn.joined([look.drawn for look in looks]),
        )


class AttentionContext(nn.Module):
    """c_i = Σ_j α_ij h_j with α = alignment(score(s, h))"""

    def __init__(self, *, score: Score, alignment: Alignment, size: int) -> None:
        super().__init__()
        self.score = score
        self.alignment = alignment
        self.size = size

    def prepare(self, memory: Memory) -> SourceSide:
        return SourceSide(self.score.prepare(memory.states), memory.states, memory.mask, memory.copies)

    def forward(self, query: Tensor, source: SourceSide) -> Attended:
        """Queries [R, T, D]: the hypotheses of a sentence are folded into its query axis, the source is not copied."""
        R, T, D = query.shape
        B = source.mask.size(0)
        scores = self.score(query.reshape(B, (R // B) * T, D), source.keys)
        aligned: Aligned = self.alignment(scores, source.mask)  # [B, R/B * T, S]
        context = torch.bmm(aligned.weights, source.values)
        drawn = None if aligned.drawn is None else aligned.drawn.reshape(R, T)
        return Attended(context.reshape(R, T, -1), aligned.weights.reshape(R, T, -1), drawn)
