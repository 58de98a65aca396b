"""Sampling: the next token is drawn, not chosen."""
# B sentences still open, V vocabulary, C candidates

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from antiphon.search.beam import best_candidates
from antiphon.search.constraints import IMPOSSIBLE
from antiphon.search.greedy import single_search
from antiphon.search.hypothesis import Ask, Hypothesis, Step
from antiphon.sequence import State

__all__ = ["Draw", "Sampling", "dice", "sample_search"]

S = TypeVar("S", bound=State)

Draw = Callable[[], float]
"""The next random number of a sentence, from 0 to 1."""


@dataclass(frozen=True)
class Sampling:
    """What is drawn from: p^(1 / temperature), of the `top_k` most probable tokens, of those the `top_p` best.

    `top_p` keeps the fewest tokens, most probable first, whose probabilities (as they are by then) make `top_p` in
    all. Equal probabilities: the lower token first.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 1

    def problems(self) -> list[str]:
        """A sentence for each value that makes no sense."""
        found = []
        if not self.temperature > 0:
            found.append(
                f"temperature: must be above 0, not {self.temperature:g}; for the most probable token do not sample"
            )
        elif math.isinf(self.temperature):
            found.append("temperature: must be a finite number, not inf; give a large one, such as 1000")
        if self.top_k is not None and self.top_k < 1:
            found.append(f"top_k: must be at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            found.append(f"top_p: must be above 0 and at most 1, not {self.top_p:g}")
        if self.seed < 0:
            found.append(f"seed: must be at least 0, not {self.seed}")
        return found


def dice(seed: int, *which: int) -> Draw:
    """The random numbers of one answer: they depend on the seed and on its numbers alone, not on its company."""
    return np.random.default_rng([seed, *which]).random


def sample_search(step: Step[S], state: S, ask: Ask, *, sampling: Sampling, draws: list[Draw]) -> list[Hypothesis]:
    """y_t ~ p(y | y_<t, x), until </s> or `max_length` tokens; one answer per sentence.

    Each sentence has its own `draws`, one a step, so its answer is the same in any batch. Its log probabilities are
    the model's own, whatever the temperature.
    """

    def choose(scores: Tensor, live: Tensor) -> Tensor:
        known = scores.masked_fill(scores.isnan(), IMPOSSIBLE)
        uniform = torch.tensor([draws[sentence]() for sentence in live.tolist()], dtype=torch.float64)
        return draw(known, uniform.to(scores.device), sampling)

    return single_search(step, state, choose, ask)


def draw(scores: Tensor, uniform: Tensor, sampling: Sampling) -> Tensor:
    """Log probabilities [B, V] and a number from 0 to 1 for each row [B] → tokens [B]."""
    values, tokens = _candidates(scores, sampling)
    below_best = values.double() - values.amax(1, keepdim=True)  # 0 stays 0, however small the temperature is
    p = torch.softmax(below_best / sampling.temperature, dim=1).nan_to_num(0.0)  # [B, C]
    if sampling.top_p is not None:
        before = p.cumsum(1) - p
        p = p.masked_fill(before >= sampling.top_p, 0.0)
    sums = p.cumsum(1)
    whole = sums[:, -1:]
    below = torch.minimum(uniform.unsqueeze(1) * whole, torch.nextafter(whole, torch.zeros_like(whole)))
    place = (sums <= below).sum(1, keepdim=True)  # the first whose sum goes beyond the number, so its p is not 0
    return tokens.gather(1, place.clamp(max=p.size(1) - 1)).squeeze(1)


def _candidates(scores: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """What may be drawn, most probable first if it matters: log probabilities and tokens, each [B, C]."""
    if sampling.top_k is not None:
        return best_candidates(scores, min(sampling.top_k, scores.size(1)))
    if sampling.top_p is not None:
        ordered = scores.sort(dim=1, descending=True, stable=True)
        return ordered.values, ordered.indices
    return scores, torch.arange(scores.size(1), device=scores.device).expand_as(scores)
