"""A wide last layer, computed in blocks, says what the plain one says."""

from __future__ import annotations

import pytest
import torch

from antiphon.models.decoders.decoder import BLOCK, OutputLayer


@pytest.mark.parametrize("tokens", [7, 2 * BLOCK - 1, 2 * BLOCK, 3 * BLOCK + 5])
@pytest.mark.parametrize("shape", [(5, 1), (1, 1), (3, 4)])
def test_blocks_are_the_whole(tokens: int, shape: tuple[int, int]) -> None:
    torch.manual_seed(2)
    layer, states = OutputLayer(12, tokens), torch.randn(*shape, 12)
    with torch.inference_mode():
        found = layer(states)
    assert found.shape == (*shape, tokens)
    assert torch.allclose(found, torch.nn.functional.linear(states, layer.weight, layer.bias), atol=1e-6)


def test_gradients_flow_through_a_wide_layer() -> None:
    layer = OutputLayer(4, 2 * BLOCK)
    layer(torch.ones(2, 1, 4)).sum().backward()
    assert layer.weight.grad is not None
    assert bool((layer.weight.grad == 2.0).all())
