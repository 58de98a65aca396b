"""Scheduled sampling: in training, too, the decoder is given its own words, more and more often.

Against exposure bias: a decoder that was only ever given the right words has not learnt to go on after a wrong one.
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

FALL = 0.01  # exponential: the part of the way that would be left at its end
STEEP = 10.0  # inverse sigmoid: from σ(-5) to σ(5)

NEVER_SAMPLED = tuple(range(len(SPECIALS)))
"""No special stands inside an answer, which does not go on after </s>. In a stream </s> may be a line end: there what
is forbidden is what `Wording` forbids."""

# x is the part of the way gone, from 0 to 1; each is 0 at 0 and 1 at 1.
SHAPES: dict[str, Callable[[float], float]] = {
    "linear": lambda x: x,
    "exponential": lambda x: (1.0 - FALL**x) / (1.0 - FALL),  # 1 - k^u, scaled so that it gets there
    "inverse-sigmoid": lambda x: (_sigmoid(x) - _sigmoid(0.0)) / (_sigmoid(1.0) - _sigmoid(0.0)),
}


def sampling_probability(config: TrainingConfig, *, number: int, updates: int) -> float:
    """The probability of an own word in update `number` (from 1) of `updates` in all: 0 before the first, then more."""
    if config.sampling == 0.0:
        return 0.0
    gone = min(1.0, number / (config.sampling_updates or max(1, updates)))
    return config.sampling * SHAPES[config.sampling_schedule](gone)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-STEEP * (x - 0.5)))


def forward_with_sampling(
    model: SequenceModel, state: State, inputs: Tensor, share: float, forbidden: tuple[int, ...] = NEVER_SAMPLED
) -> Step[Any]:
    """Step by step from a state: each input after the first is, with probability `share`, drawn from the model.

    Otherwise it is the right one, of inputs [B, T]. The draw itself has no gradient; the logits have. What is
    `forbidden` is never drawn.
    """
    steps: list[Step[Any]] = []
    tokens = inputs[:, :1]
    for position in range(inputs.size(1)):
        steps.append(model.step(tokens, steps[-1].state if steps else state))
        if position + 1 < inputs.size(1):
            tokens = _next(steps[-1].logits[:, -1], inputs[:, position + 1], share, forbidden).unsqueeze(1)
    return _joined(steps)


@torch.no_grad()
def _next(logits: Tensor, right: Tensor, share: float, forbidden: tuple[int, ...]) -> Tensor:
    """Own words [B], drawn from logits [B, V], or the right ones: padding, and where all words are forbidden."""
    noise = -torch.empty_like(logits).exponential_().log()  # Gumbel: argmax(logit + noise) is a draw from the softmax
    scores = logits + noise
    scores[:, list(forbidden)] = -torch.inf
    best = scores.max(dim=-1)
    chosen = (torch.rand(right.shape) < share) & (right != PAD) & (best.values != -torch.inf)
    return torch.where(chosen, best.indices, right)


def _joined(steps: list[Step[Any]]) -> Step[Any]:
    """Steps of one token as one step of many."""
    weights = [step.weights for step in steps if step.weights is not None]
    return Step(
        logits=torch.cat([step.logits for step in steps], dim=1),
        state=steps[-1].state,
        weights=torch.cat(weights, dim=1) if weights else None,
        sampled=SampledAlignment.concat([step.sampled for step in steps]),
    )
