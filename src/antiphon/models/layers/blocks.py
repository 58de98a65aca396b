"""Parts of a Transformer block: norms and where they stand, the feed-forward network."""
# B rows, T steps, H state size
# T steps, H state size, F inner size

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor, nn

__all__ = ["AddAndNorm", "FeedForward", "LayerNorm", "MaskedBatchNorm", "Norm", "Order", "unit_linear"]

Order = Literal["pre", "post"]


class LayerNorm(nn.LayerNorm):
    """γ (x - mean(x)) / √(var(x) + ε) + β, over the values of one state: torch's own"""

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:  # noqa: ARG002 (padding is no concern of others)
        return super().forward(states)


class MaskedBatchNorm(nn.Module):
    """γ (x - mean) / √(var + ε) + β, each value over all real positions of the batch

    In use it takes the moving averages of training. That is why layer norm won for text: a batch holds few sentences
    of unequal length, so its statistics are noisy and what a sentence becomes depends on its company; in use they are
    replaced by averages the network was not trained with; and a decoder that goes step by step never has a batch of
    positions to count. Layer norm needs one state and does the same at all times.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, size: int, *, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum = momentum
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_var", torch.ones(size))

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """States [B, T, H], mask [B, T]."""
        mean, var = self._count(states, mask) if self.training else (self.running_mean, self.running_var)
        return (states - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias

    def _count(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance [H] over real positions; the moving averages follow them."""
        padding, number = ~mask.unsqueeze(-1), mask.sum()
        mean = states.masked_fill(padding, 0.0).sum((0, 1)) / number
        var = (states - mean).square().masked_fill(padding, 0.0).sum((0, 1)) / number
        self._follow(mean.detach(), var.detach() * number / (number - 1).clamp(min=1))
        return mean, var

    def _follow(self, mean: Tensor, var: Tensor) -> None:
        """As torch does, with the variance of a sample: / (n - 1). A batch that overflowed leaves no trace."""
        if bool((mean.isfinite() & var.isfinite()).all()):
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)


Norm = LayerNorm | MaskedBatchNorm


class AddAndNorm(nn.ModuleDict):
    """pre: x + f(norm(x)),  post: norm(x + f(x)); one norm for each part f of a block, with dropout on f"""

    def __init__(self, *, parts: Iterable[str], norm: type[Norm], size: int, order: Order, dropout: float) -> None:
        super().__init__({part: norm(size) for part in parts})
        self.order = order
        self.dropout = dropout

    def before(self, part: str, states: Tensor, mask: Tensor) -> Tensor:
        """What the part f is given."""
        if self.order == "post":
            return states
        normed: Tensor = self[part](states, mask)
        return normed

    def after(self, part: str, states: Tensor, found: Tensor, mask: Tensor) -> Tensor:
        """The states with what f found in them."""
        added = states + nn.functional.dropout(found, self.dropout, self.training)
        if self.order == "pre":
            return added
        normed: Tensor = self[part](added, mask)
        return normed


# The feed-forward network of a Transformer block.


class FeedForward(nn.Module):
    """W_2 g(W_1 x), at each position for itself, with g = ReLU, GELU or swish and dropout inside"""

    def __init__(self, *, size: int, inner: int, activation: Callable[[Tensor], Tensor], dropout: float) -> None:
        super().__init__()
        self.W_1 = nn.Linear(size, inner)
        self.W_2 = nn.Linear(inner, size)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)
        for dense in (self.W_1, self.W_2):
            nn.init.xavier_uniform_(dense.weight)
            nn.init.zeros_(dense.bias)

    def forward(self, states: Tensor) -> Tensor:
        found: Tensor = self.W_2(self.dropout(self.activation(self.W_1(states))))  # [.., H] → [.., F] → [.., H]
        return found


# The linear layer at the end of a front.


def unit_linear(inputs: int, size: int) -> nn.Linear:
    """From values of about 1 to vectors of about length 1, as long as those of tokens."""
    linear = nn.Linear(inputs, size)
    nn.init.normal_(linear.weight, std=(inputs * size) ** -0.5)
    nn.init.zeros_(linear.bias)
    return linear
