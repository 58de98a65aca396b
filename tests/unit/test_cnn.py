"""The convolutional encoder: a gated convolution in a loop, how far the stack sees, padding."""
# B rows, S steps, E embedding, H size, K kernel

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import close, fill
from torch import Tensor

from antiphon.models.encoders.cnn import ConvolutionalEncoder, GatedConvolution
from antiphon.models.layers.positions import SinusoidalPositions
from antiphon.sequence import Sequence

B, S, E, H = 2, 9, 3, 4


def values(*shape: int) -> Tensor:
    return torch.cos(torch.arange(torch.Size(shape).numel(), dtype=torch.float64) * 0.7).reshape(shape)


def encoder(layers: int, kernel: int, inputs: int = E, dropout: float = 0.0) -> ConvolutionalEncoder:
    module = ConvolutionalEncoder(
        inputs=inputs,
        size=H,
        layers=layers,
        kernel=kernel,
        positions=SinusoidalPositions(size=H),
        dropout=dropout,
    )
    fill(module.double())
    return module.eval()


@pytest.mark.parametrize("kernel", [1, 3, 5])
@torch.no_grad()
def test_gated_convolution_in_a_loop(kernel: int) -> None:
    """Outside the real positions there is 0."""
    block = GatedConvolution(size=H, kernel=kernel, dropout=0.0).double()
    fill(block)
    states, lengths = values(B, H, S), [S, 4]
    padding = torch.arange(S) >= torch.tensor(lengths)[:, None, None]
    found = block(states, padding)
    weight, bias = block.convolution.weight, block.convolution.bias
    assert bias is not None
    for b, length in enumerate(lengths):
        for t in range(length):
            both = bias.clone()
            for k in range(kernel):
                place = t + k - kernel // 2
                if 0 <= place < length:
                    both += weight[:, :, k] @ states[b, :, place]
            gate = 1 / (1 + (-both[H:]).exp())
            close(found[b, :, t], math.sqrt(0.5) * (states[b, :, t] + both[:H] * gate))


@pytest.mark.parametrize(("layers", "kernel", "seen"), [(1, 1, 1), (1, 3, 3), (2, 3, 5), (4, 3, 9), (2, 5, 9)])
def test_how_far_the_stack_sees(layers: int, kernel: int, seen: int) -> None:
    """L (K - 1) + 1 positions, as many on each side."""
    inputs = values(1, 15, E).requires_grad_()
    encoder(layers, kernel)(Sequence(inputs, torch.ones(1, 15, dtype=torch.bool))).states[0, 7].sum().backward()
    assert inputs.grad is not None
    reached = inputs.grad[0].abs().sum(-1).nonzero().flatten().tolist()
    assert reached == list(range(7 - seen // 2, 7 + seen // 2 + 1))


def test_final_is_the_last_real_state() -> None:
    mask = torch.arange(S) < torch.tensor([[S], [4]])
    memory = encoder(2, 3)(Sequence(values(B, S, E), mask))
    assert memory.states.shape == (B, S, H)
    assert memory.final.shape == (B, 1, H)
    close(memory.final[:, 0], torch.stack([memory.states[0, S - 1], memory.states[1, 3]]))


def test_padding_is_never_seen() -> None:
    mask = torch.arange(S) < torch.tensor([[S], [4]])
    wild = values(B, S, E).masked_fill(~mask.unsqueeze(-1), 1e6)
    module = encoder(3, 5)
    close(module(Sequence(wild, mask)).states[mask], module(Sequence(values(B, S, E), mask)).states[mask])
    alone = module(Sequence(values(B, S, E)[1:, :4], mask[1:, :4]))
    close(module(Sequence(wild, mask)).states[1, :4], alone.states[0])


@torch.no_grad()
def test_positions_tell_equal_tokens_apart() -> None:
    """All tokens and all neighbours are equal; only the position is not."""
    states = encoder(1, 1)(
        Sequence(torch.ones(1, S, E, dtype=torch.float64), torch.ones(1, S, dtype=torch.bool))
    ).states
    assert float((states[0, 3] - states[0, 4]).abs().max()) > 0.01


def test_vectors_of_the_right_size_need_no_dense_layer() -> None:
    names = {name.split(".")[0] for name, _ in encoder(1, 3, inputs=H).named_parameters()}
    assert names == {"blocks"}
    assert "widen" in {name.split(".")[0] for name, _ in encoder(1, 3).named_parameters()}


def test_dropout_falls_on_what_is_convolved() -> None:
    block = GatedConvolution(size=H, kernel=3, dropout=1.0).double()
    states, padding = values(B, H, S), torch.zeros(B, 1, S, dtype=torch.bool)
    close(block(states, padding), math.sqrt(0.5) * states)  # the bias begins at 0
    assert not block.convolution.weight.any()  # nothing passes, so the first weights are 0 as well


def test_an_even_kernel_has_no_middle() -> None:
    with pytest.raises(ValueError, match="a kernel of 4 has no middle"):
        GatedConvolution(size=H, kernel=4, dropout=0.0)


def test_first_weights() -> None:
    """N(0, 4 (1 - dropout) / (K H))"""
    torch.manual_seed(3)
    block = GatedConvolution(size=64, kernel=3, dropout=0.2)
    assert float(block.convolution.weight.detach().std()) == pytest.approx(math.sqrt(4 * 0.8 / (3 * 64)), rel=0.03)
