"""Dropout that draws a random byte for each value, instead of a floating-point number."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Dropout", "dropout", "relu_and_dropout"]

LEVELS = 256  # values of a random byte: the resolution of the probability


class Dropout(nn.Module):
    """y = x k / (1 - p) with k = 0 with probability p, else 1, drawn for each value; y = x in evaluation mode"""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, values: Tensor) -> Tensor:
        return dropout(values, self.p, self.training)


def dropout(values: Tensor, p: float, training: bool) -> Tensor:
    """Drop values with probability p, rounded to 1/256, and scale those that stay so that the mean is kept.

    torch's own dropout draws a number for each value on one thread, which takes an eighth of the time of a
    Transformer's training on a CPU. Here one 64-bit number serves eight values. On other devices torch's own is used.
    """
    if not training or p == 0.0:
        return values
    if not _draws_bytes(values, p):
        return functional.dropout(values, p, training=True)
    result: Tensor = MaskedValues.apply(values, *_random_mask(values.shape, p))  # type: ignore[no-untyped-call]
    return result


def relu_and_dropout(values: Tensor, p: float, training: bool) -> Tensor:
    """dropout(max(0, x)) in one operation, which needs neither x nor the mask for its gradient; x is overwritten."""
    if not training or p == 0.0 or not _draws_bytes(values, p):
        return dropout(torch.relu_(values), p, training)
    result: Tensor = MaskedReLU.apply(values, *_random_mask(values.shape, p))  # type: ignore[no-untyped-call]
    return result


def _draws_bytes(values: Tensor, p: float) -> bool:
    """False on other devices, and for a p so near 0 or 1 that it needs a finer resolution."""
    return values.device.type == "cpu" and 0 < round(p * LEVELS) < LEVELS


def _random_mask(shape: torch.Size, p: float) -> tuple[Tensor, float]:
    """1 for values to keep and 0 for values to drop, as bytes, and the factor for those that stay.

    The bits come from a generator of numpy that starts from a number of torch's generator: so they depend on torch's
    seed alone, and a resumed run draws the same ones.
    """
    dropped, count = round(p * LEVELS), shape.numel()
    numbers = np.random.SFC64(int(torch.randint(2**62, ()))).random_raw(-(-count // 8))
    kept = numbers.view(np.uint8)[:count] >= dropped
    return torch.from_numpy(kept).view(torch.uint8).view(shape), LEVELS / (LEVELS - dropped)


class MaskedValues(torch.autograd.Function):
    """y = x k s,  ∂L/∂x = ∂L/∂y k s with mask k and scale s"""

    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor, scale: float) -> Tensor:  # noqa: ANN401 (torch has no public type)
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return (values * mask).mul_(scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        (mask,) = ctx.saved_tensors
        return (gradient * mask).mul_(ctx.scale), None, None


class MaskedReLU(torch.autograd.Function):
    """y = max(0, x) k s,  ∂L/∂x = ∂L/∂y [y > 0] s"""

    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor, scale: float) -> Tensor:  # noqa: ANN401
        ctx.mark_dirty(values)
        result = values.clamp_min_(0.0).mul_(mask).mul_(scale)
        ctx.save_for_backward(result)
        ctx.scale = scale
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        (result,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, result, 0.0).mul_(ctx.scale), None, None
