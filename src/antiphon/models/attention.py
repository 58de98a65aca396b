"""Attention: a score, an alignment (scores become weights), and the context c_i = Σ_j α_ij h_j."""
# B sentences, R = B x hypotheses rows, T steps, Q queries of a sentence, S source steps, D query, H state, A inner size

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize, one_hot

from antiphon.sequence import Memory

__all__ = [
    "AdditiveScore", "Alignment", "Attended", "AttentionContext", "BilinearScore", "ConcatScore", "CosineScore",
    "DotScore", "EqualSizes", "HardAlignment", "ProjectedMemory", "SampledAlignment", "ScaledDotScore", "Score",
    "SoftAlignment",
]  # fmt: skip

MIN_NORM = 1e-4


class Score(nn.Module, ABC):
    """score(s, h) for every query and every source position

    `query` and `key` are the sizes of s and h; `size` is the inner size of those scores that have one.
    """

    def __init__(self, *, query: int, key: int, size: int) -> None:  # noqa: ARG002 (one signature for all scores)
        super().__init__()

    def prepare(self, states: Tensor) -> Tensor:
        """Project source states [B, S, H] to keys, once per sentence."""
        return states

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Queries [B, Q, D] and keys → scores [B, Q, S]."""


class EqualSizes(Score):
    """A score without a projection: s and h need the same size."""

    def __init__(self, *, query: int, key: int, size: int) -> None:
        super().__init__(query=query, key=key, size=size)
        if query != key:
            raise ValueError(f"{type(self).__name__} needs states of equal size, not {query} and {key}")


class DotScore(EqualSizes):
    """score(s, h) = s · h"""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query, keys.transpose(1, 2))


class ScaledDotScore(EqualSizes):
    """score(s, h) = s · h / √d, d the size of both: the variance of scores does not grow with the size"""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query / math.sqrt(query.size(-1)), keys.transpose(1, 2))


class CosineScore(EqualSizes):
    """score(s, h) = s · h / (|s| |h|), from -1 to 1

    Norms are clamped to at least 0.0001: a zero vector scores 0, and gradients stay bounded.
    """

    def prepare(self, states: Tensor) -> Tensor:
        return normalize(states, dim=-1, eps=MIN_NORM)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(normalize(query, dim=-1, eps=MIN_NORM), keys.transpose(1, 2))


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

    Computed as W1 [s; h] = W_s s + W_h h, the left and right columns of W1, so that W_h h is computed once for all
    queries. The only difference to the additive score is that W1 is one matrix with one initialisation.
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


@dataclass(frozen=True)
class SampledAlignment:
    """log p of each sampled position and the entropy of its distribution, both [R, T]: what REINFORCE needs."""

    log_probs: Tensor
    entropy: Tensor

    def reshape(self, rows: int, steps: int) -> SampledAlignment:
        return SampledAlignment(self.log_probs.reshape(rows, steps), self.entropy.reshape(rows, steps))

    @classmethod
    def concat(cls, parts: list[SampledAlignment | None]) -> SampledAlignment | None:
        """Samples of consecutive steps, side by side; None where nothing was sampled."""
        sampled = [part for part in parts if part is not None]
        if not sampled:
            return None
        log_probs = torch.cat([part.log_probs for part in sampled], dim=1)
        return cls(log_probs, torch.cat([part.entropy for part in sampled], dim=1))


@dataclass(frozen=True)
class AlignmentWeights:
    """Weights α [B, Q, S]; with hard attention in training, also how they were sampled [B, Q]."""

    weights: Tensor
    sampled: SampledAlignment | None = None


class Alignment(nn.Module, ABC):
    """score_ij → α_ij"""

    @abstractmethod
    def forward(self, scores: Tensor, mask: Tensor) -> AlignmentWeights:
        """Scores [B, Q, S] and mask [B, S]; padding gets exactly 0."""


class SoftAlignment(Alignment):
    """α_ij = softmax_j(score_ij) over the real positions"""

    def forward(self, scores: Tensor, mask: Tensor) -> AlignmentWeights:
        return AlignmentWeights(torch.softmax(scores.masked_fill(~mask.unsqueeze(1), float("-inf")), dim=-1))


class HardAlignment(Alignment):
    """α_ij = [j = a_i], one position a_i for each query: a_i ~ softmax_j(score_ij) in training, argmax_j in use

    Sampling has no gradient; `training/step.py` estimates one (REINFORCE) from SampledAlignment. The moving-average
    baseline b of the reward is a buffer here, so that it is saved with the weights.
    """

    baseline: Tensor

    def __init__(self, *, decay: float, entropy: float) -> None:
        super().__init__()
        self.decay = decay
        self.entropy_weight = entropy
        self.register_buffer("baseline", torch.zeros(()))

    def forward(self, scores: Tensor, mask: Tensor) -> AlignmentWeights:
        padding = ~mask.unsqueeze(1)  # [B, 1, S]
        if not self.training:
            return AlignmentWeights(_one_hot(scores.masked_fill(padding, float("-inf")).argmax(dim=-1), scores))
        log_probs = torch.log_softmax(scores.masked_fill(padding, float("-inf")), dim=-1)
        position = self.sample(scores.detach(), padding)  # [B, Q]
        entropy = -(log_probs.exp() * log_probs.masked_fill(padding, 0.0)).sum(dim=-1)
        log_prob = log_probs.gather(-1, position.unsqueeze(-1)).squeeze(-1)
        return AlignmentWeights(_one_hot(position, scores), SampledAlignment(log_prob, entropy))

    def sample(self, scores: Tensor, padding: Tensor) -> Tensor:
        """One position for each query [B, Q]: argmax_j(score_j + g_j) with Gumbel noise g samples from the softmax.

        Padding is masked after the noise is added, so that no noise can select it.
        """
        noise = -torch.empty_like(scores).exponential_().log()
        return (scores + noise).masked_fill(padding, float("-inf")).argmax(dim=-1)

    @torch.no_grad()
    def update_baseline(self, mean: Tensor) -> None:
        """b ← decay · b + (1 - decay) · mean log p per token; skipped where the mean is not finite."""
        if bool(torch.isfinite(mean)):
            self.baseline.mul_(self.decay).add_((1.0 - self.decay) * mean)


def _one_hot(position: Tensor, scores: Tensor) -> Tensor:
    """Positions [B, Q] → weights [B, Q, S]."""
    return one_hot(position, scores.size(-1)).to(scores.dtype)


@dataclass(frozen=True)
class ProjectedMemory:
    """Keys and values of the source, computed once per sentence and shared by its hypotheses."""

    keys: Tensor  # [B, S, ...], as the score prepared them
    values: Tensor  # [B, S, H]
    mask: Tensor  # [B, S]
    copies: Tensor | None = None  # [B, S]: each position as a target token, for a decoder that copies

    def select(self, sentences: Tensor) -> ProjectedMemory:
        copies = None if self.copies is None else self.copies[sentences]
        return ProjectedMemory(self.keys[sentences], self.values[sentences], self.mask[sentences], copies)

    def for_rows(self, rows: Tensor, before: int) -> ProjectedMemory:
        """The memory of the sentences of rows [B', k], selected among `before` rows.

        Sentences only ever leave, in order, so nothing is copied while all of them stay.
        """
        sentences = rows[:, 0] // (before // self.mask.size(0))
        return self if sentences.numel() == self.mask.size(0) else self.select(sentences)


@dataclass(frozen=True)
class Attended:
    """Contexts [R, T, H], their weights [R, T, S], and with hard attention in training the samples [R, T]."""

    context: Tensor
    weights: Tensor
    sampled: SampledAlignment | None = None

    @classmethod
    def concat(cls, parts: list[Attended]) -> Attended:
        """Consecutive steps, side by side."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            context=torch.cat([part.context for part in parts], dim=1),
            weights=torch.cat([part.weights for part in parts], dim=1),
            sampled=SampledAlignment.concat([part.sampled for part in parts]),
        )


class AttentionContext(nn.Module):
    """c_i = Σ_j α_ij h_j with α = alignment(score(s, h))"""

    def __init__(self, *, score: Score, alignment: Alignment, size: int) -> None:
        super().__init__()
        self.score = score
        self.alignment = alignment
        self.size = size

    def prepare(self, memory: Memory) -> ProjectedMemory:
        return ProjectedMemory(self.score.prepare(memory.states), memory.states, memory.mask, memory.copies)

    def forward(self, query: Tensor, source: ProjectedMemory) -> Attended:
        """Queries [R, T, D]: the hypotheses of a sentence are folded into its query axis, the source is not copied."""
        R, T, D = query.shape
        B = source.mask.size(0)
        scores = self.score(query.reshape(B, (R // B) * T, D), source.keys)
        aligned: AlignmentWeights = self.alignment(scores, source.mask)  # [B, Q, S]
        context = torch.bmm(aligned.weights, source.values)
        sampled = None if aligned.sampled is None else aligned.sampled.reshape(R, T)
        return Attended(context.reshape(R, T, -1), aligned.weights.reshape(R, T, -1), sampled)
