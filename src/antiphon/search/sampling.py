"""Sampling: each token is drawn from the distribution of the model."""
# B open sentences, V vocabulary, C candidates

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from antiphon.search.constraints import IMPOSSIBLE
from antiphon.search.greedy import single_hypothesis_search
from antiphon.search.hypothesis import Hypothesis, SearchRequest, StepFunction, stable_topk
from antiphon.search.trace import Observer
from antiphon.sequence import State

__all__ = ["RandomStream", "Sampling", "random_stream", "sample_search", "text_key"]

S = TypeVar("S", bound=State)

RandomStream = Callable[[], float]
"""Returns the next random number of a sentence, from 0 to 1."""


@dataclass(frozen=True)
class Sampling:
    """The distribution to draw from: p^(1 / temperature), restricted to `top_k` tokens, then to the nucleus `top_p`.

    The nucleus is the fewest tokens, most probable first, whose probabilities (after temperature and top_k) sum to
    `top_p`. Equal probabilities: the lower token first.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 1


def random_stream(seed: int, *key: int) -> RandomStream:
    """The random numbers of one answer; they depend on the seed and its key only, not on the batch."""
    return np.random.default_rng([seed, *key]).random


def text_key(text: str) -> int:
    """A key for `random_stream`: the first 64 bits of the SHA-256 of a text in UTF-8."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8])


def sample_search(
    step: StepFunction[S],
    state: S,
    request: SearchRequest,
    *,
    sampling: Sampling,
    random_streams: list[RandomStream],
    observer: Observer | None = None,
) -> list[Hypothesis]:
    """y_t ~ p(y | y_<t, x), until </s> or `max_length` tokens; one hypothesis per sentence.

    Each sentence has its own random stream, one number a step, so its answer is the same in any batch. Log
    probabilities are the model's own, whatever the temperature.
    """

    def choose(scores: Tensor, sentences: Tensor) -> Tensor:
        known = scores.masked_fill(scores.isnan(), IMPOSSIBLE)
        uniform = torch.tensor([random_streams[sentence]() for sentence in sentences.tolist()], dtype=torch.float64)
        return draw_tokens(known, uniform.to(scores.device), sampling)

    return single_hypothesis_search(step, state, choose, request, observer)


def draw_tokens(scores: Tensor, uniform: Tensor, sampling: Sampling) -> Tensor:
    """Draw a token for each row of log probabilities [B, V] by its uniform random number [B]."""
    values, tokens = _candidates(scores, sampling)
    below_best = values.double() - values.amax(1, keepdim=True)  # 0 stays 0, however small the temperature is
    p = torch.softmax(below_best / sampling.temperature, dim=1).nan_to_num(0.0)  # [B, C]
    if sampling.top_p is not None:
        before = p.cumsum(1) - p
        p = p.masked_fill(before >= sampling.top_p, 0.0)
    sums = p.cumsum(1)
    total = sums[:, -1:]
    below = torch.minimum(uniform.unsqueeze(1) * total, torch.nextafter(total, torch.zeros_like(total)))
    index = (sums <= below).sum(1, keepdim=True)  # the first whose sum exceeds the number, so its p is not 0
    return tokens.gather(1, index.clamp(max=p.size(1) - 1)).squeeze(1)


def _candidates(scores: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Log probabilities and tokens that may be drawn, each [B, C]; for top_k and top_p the most probable first."""
    if sampling.top_k is not None:
        return stable_topk(scores, min(sampling.top_k, scores.size(1)))
    if sampling.top_p is not None:
        ordered = scores.sort(dim=1, descending=True, stable=True)
        return ordered.values, ordered.indices
    return scores, torch.arange(scores.size(1), device=scores.device).expand_as(scores)
