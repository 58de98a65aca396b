"""Scheduled sampling against exposure bias: in training the decoder reads its own tokens more and more often.

A decoder that has only ever read reference tokens has not learnt to continue after a wrong one.
"""
# B batch, T target steps, V vocabulary

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from antiphon.config.schema import TrainingConfig
from antiphon.data.tokenizers import PAD, SPECIALS
from antiphon.models.attention import SampledAlignment
from antiphon.models.decoders.decoder import Step
from antiphon.models.model import SequenceModel
from antiphon.sequence import State

__all__ = ["NEVER_SAMPLED", "forward_with_sampling", "sampling_probability"]

DECAY = 0.01  # exponential: the distance from the end that plain decay would leave
STEEPNESS = 10.0  # inverse sigmoid: from σ(-5) to σ(5)

NEVER_SAMPLED = tuple(range(len(SPECIALS)))
"""No special token occurs inside an answer, which does not go on after </s>. A stream, in which </s> may be a line end,
has a list of its own (`Batches.forbidden`)."""

# x is the finished part of the schedule, from 0 to 1; each shape is 0 at 0 and 1 at 1.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "linear": lambda x: x,
    "exponential": lambda x: (1.0 - DECAY**x) / (1.0 - DECAY),  # 1 - k^u, scaled to reach 1
    "inverse-sigmoid": lambda x: (_sigmoid(x) - _sigmoid(0.0)) / (_sigmoid(1.0) - _sigmoid(0.0)),
}


def sampling_probability(config: TrainingConfig, *, number: int, updates: int) -> float:
    """The probability of reading an own token in update `number` (from 1) of `updates`; it only ever rises."""
    sampling = config.scheduled_sampling
    if sampling is None:
        return 0.0
    finished = min(1.0, number / (sampling.updates or max(1, updates)))
    return sampling.probability * SCHEDULES[sampling.schedule](finished)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-STEEPNESS * (x - 0.5)))


def forward_with_sampling(
    model: SequenceModel,
    state: State,
    inputs: Tensor,
    probability: float,
    forbidden: tuple[int, ...] = NEVER_SAMPLED,
) -> Step[Any]:
    """Step by step from a state: each input after the first is, with this `probability`, drawn from the model.

    Otherwise it is the reference, of inputs [B, T]. The draw itself has no gradient; the logits have. A `forbidden`
    token is never drawn.
    """
    steps: list[Step[Any]] = []
    tokens = inputs[:, :1]
    for position in range(inputs.size(1)):
        steps.append(model.step(tokens, steps[-1].state if steps else state))
        if position + 1 < inputs.size(1):
            reference = inputs[:, position + 1]
            tokens = _next_inputs(steps[-1].logits[:, -1], reference, probability, forbidden).unsqueeze(1)
    return _concatenated(steps)


@torch.no_grad()
def _next_inputs(logits: Tensor, reference: Tensor, probability: float, forbidden: tuple[int, ...]) -> Tensor:
    """Tokens [B] drawn from logits [B, V], or the reference: at padding, and where every token is forbidden."""
    noise = -torch.empty_like(logits).exponential_().log()  # Gumbel: argmax(logit + noise) is a draw from the softmax
    scores = logits + noise
    scores[:, list(forbidden)] = -torch.inf
    best = scores.max(dim=-1)
    sampled = (torch.rand(reference.shape) < probability) & (reference != PAD) & (best.values != -torch.inf)
    return torch.where(sampled, best.indices, reference)


def _concatenated(steps: list[Step[Any]]) -> Step[Any]:
    """Many steps of one token as one step of many tokens."""
    weights = [step.weights for step in steps if step.weights is not None]
    return Step(
        logits=torch.cat([step.logits for step in steps], dim=1),
        state=steps[-1].state,
        weights=torch.cat(weights, dim=1) if weights else None,
        sampled=SampledAlignment.concat([step.sampled for step in steps]),
    )
