"""The feed-forward network of a Transformer block."""
# T steps, H state size, F inner size

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

__all__ = ["FeedForward"]


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
