"""The feed-forward network of a block."""

from __future__ import annotations

import torch
from tiny_models import close, fill
from torch.nn import functional

from antiphon.models.layers.blocks import FeedForward

D = 8


def test_feedforward_is_two_layers_with_dropout_between() -> None:
    states = torch.cos(torch.arange(3 * D, dtype=torch.float64)).reshape(1, 3, D)
    for bent in (functional.relu, functional.gelu):
        module = FeedForward(size=D, inner=12, activation=bent, dropout=1.0).double()
        fill(module)
        close(module(states), module.W_2.bias.expand(1, 3, D))
        inner = bent(states @ module.W_1.weight.T + module.W_1.bias)
        close(module.eval()(states), inner @ module.W_2.weight.T + module.W_2.bias)
