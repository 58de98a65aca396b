"""Parts of a Transformer block: norms, residual connections, the feed-forward network."""
# B rows, T steps, H state size, F inner size

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from antiphon.models.layers.dropout import Dropout, dropout, relu_and_dropout
from antiphon.models.multihead import MultiHeadAttention

__all__ = ["AddAndNorm", "BlockSpec", "FeedForward", "LayerNorm", "MaskedBatchNorm", "Norm", "Order"]

Order = Literal["pre", "post"]


class LayerNorm(nn.LayerNorm):
    """γ (x - mean(x)) / √(var(x) + ε) + β, over the values of one state: torch's own"""

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:  # noqa: ARG002 (as MaskedBatchNorm)
        return super().forward(states)


class MaskedBatchNorm(nn.Module):
    """γ (x - mean) / √(var + ε) + β, each value over all real positions of the batch

    In evaluation mode it uses moving averages. That is why layer norm won for text: a batch holds few sentences of
    unequal length, so its statistics are noisy and the output for a sentence depends on its batch; in use they are
    replaced by averages that the network was not trained with; and a decoder that goes step by step has no batch of
    positions. Layer norm needs one state and always computes the same.
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
        mean, var = self._statistics(states, mask) if self.training else (self.running_mean, self.running_var)
        return (states - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias

    def _statistics(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance [H] over real positions; updates the moving averages."""
        padding, number = ~mask.unsqueeze(-1), mask.sum()
        mean = states.masked_fill(padding, 0.0).sum((0, 1)) / number
        var = (states - mean).square().masked_fill(padding, 0.0).sum((0, 1)) / number
        self._update_averages(mean.detach(), var.detach() * number / (number - 1).clamp(min=1))
        return mean, var

    def _update_averages(self, mean: Tensor, var: Tensor) -> None:
        """As torch does, with the unbiased variance: / (n - 1). Statistics that overflowed are skipped."""
        if bool((mean.isfinite() & var.isfinite()).all()):
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var, self.momentum)


Norm = LayerNorm | MaskedBatchNorm


class AddAndNorm(nn.ModuleDict):
    """pre: x + f(norm(x)),  post: norm(x + f(x)); one norm for each sublayer f of a block, with dropout on f"""

    def __init__(self, *, parts: Iterable[str], norm: type[Norm], size: int, order: Order, dropout: float) -> None:
        super().__init__({part: norm(size) for part in parts})
        self.order = order
        self.dropout = dropout

    def before(self, part: str, states: Tensor, mask: Tensor) -> Tensor:
        """The input of f."""
        if self.order == "post":
            return states
        normed: Tensor = self[part](states, mask)
        return normed

    def after(self, part: str, states: Tensor, outputs: Tensor, mask: Tensor) -> Tensor:
        """The states with the outputs of f added."""
        added = states + dropout(outputs, self.dropout, self.training)
        if self.order == "pre":
            return added
        normed: Tensor = self[part](added, mask)
        return normed


class FeedForward(nn.Module):
    """W_2 g(W_1 x), at each position, with g = ReLU, GELU or swish and dropout inside"""

    def __init__(self, *, size: int, inner: int, activation: Callable[[Tensor], Tensor], dropout: float) -> None:
        super().__init__()
        self.W_1 = nn.Linear(size, inner)
        self.W_2 = nn.Linear(inner, size)
        self.activation = activation
        self.dropout = Dropout(dropout)
        for dense in (self.W_1, self.W_2):
            nn.init.xavier_uniform_(dense.weight)
            nn.init.zeros_(dense.bias)

    def forward(self, states: Tensor) -> Tensor:
        inner: Tensor = self.W_1(states)  # [.., F]
        if self.activation is torch.relu_:
            inner = relu_and_dropout(inner, self.dropout.p, self.training)
        else:
            inner = self.dropout(self.activation(inner))
        outputs: Tensor = self.W_2(inner)
        return outputs


@dataclass(frozen=True)
class BlockSpec:
    """The sizes and kinds of the parts of a Transformer block, which encoder and decoder build from it."""

    size: int
    heads: int
    inner: int
    order: Order
    norm: type[Norm]
    activation: Callable[[Tensor], Tensor]
    dropout: float
    embedding_norm: bool = False

    def attention(self, memory: int | None = None) -> MultiHeadAttention:
        """Attention to states of size `memory`; None: self-attention."""
        return MultiHeadAttention(
            query=self.size, memory=memory or self.size, size=self.size, heads=self.heads, dropout=self.dropout
        )

    def feedforward(self) -> FeedForward:
        return FeedForward(size=self.size, inner=self.inner, activation=self.activation, dropout=self.dropout)

    def norms(self, *parts: str) -> AddAndNorm:
        return AddAndNorm(parts=parts, norm=self.norm, size=self.size, order=self.order, dropout=self.dropout)

    def first_norm(self) -> Norm | None:
        """The norm of vectors with their positions, before the first block."""
        return self.norm(self.size) if self.embedding_norm else None

    def last_norm(self) -> Norm | None:
        """In pre order the output of the last block is not yet normalised."""
        return self.norm(self.size) if self.order == "pre" else None
