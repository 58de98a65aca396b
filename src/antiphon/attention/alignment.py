"""How scores become weights: soft, or hard."""
# B batch, Q queries, S source steps, R rows, T steps

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

__all__ = ["Aligned", "Alignment", "Drawn", "HardAlignment", "SoftAlignment"]


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

    No gradient passes through a draw; `training/reinforce.py` makes one from what is handed out about it. The
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
