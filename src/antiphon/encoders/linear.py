"""The linear layer at the end of a front."""

from __future__ import annotations

from torch import nn

__all__ = ["unit_linear"]


def unit_linear(inputs: int, size: int) -> nn.Linear:
    """From values of about 1 to vectors of about length 1, as long as those of tokens."""
    linear = nn.Linear(inputs, size)
    nn.init.normal_(linear.weight, std=(inputs * size) ** -0.5)
    nn.init.zeros_(linear.bias)
    return linear
