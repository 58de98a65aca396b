"""The layout of weights in memory for use: packed in half precision, or transposed; the numbers of a folder stay.

A packed product reads half the bytes, and for a few rows it is 1.5 to 5 times as fast as torch's own (decision 0027).
Its sums are in float32, so a row has the same result to rounding alone and in any batch (with AVX-512 bit by bit).
"""
# R rows, K inputs, N outputs, H state

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.models.decoders.transformer_decoder import TransformerDecoder
from antiphon.models.decoders.transformer_step import TransformerStep
from antiphon.models.layers.recurrent import RecurrentStack

__all__ = ["HalfLinear", "HalfRecurrentStack", "half_is_faster", "lay_out_weights", "pretranspose_weights"]

LARGEST = float(torch.finfo(torch.float16).max)
MAX_ERROR = 2e-3  # of a product of the probe, relative to its largest value; half precision has about 3e-4
PROBE_INPUTS, PROBE_OUTPUTS, PROBE_ROWS, PROBE_ROUNDS = 256, 512, 5, 20

Model = TypeVar("Model", bound=nn.Module)
Product = Callable[[Tensor], Tensor]


def lay_out_weights(model: Model, *, half: bool) -> Model:
    """The model with its weights laid out for use: packed in half precision or, if not `half`, transposed."""
    if half:
        _replace_parts(model)
    else:
        pretranspose_weights(model)
    for part in model.modules():
        if isinstance(part, TransformerDecoder) and TransformerStep.fits(part):
            part.one_step = TransformerStep(part, _packed_product if half else _transposed_product)
    return model


@cache
def half_is_faster() -> bool:
    """True if this machine computes packed products, right, and faster than torch's own; measured once."""
    if not hasattr(torch, "fbgemm_linear_fp16_weight_fp32_activation"):
        return False
    generator, threads = torch.Generator().manual_seed(1), torch.get_num_threads()
    weight = torch.randn(PROBE_OUTPUTS, PROBE_INPUTS, generator=generator)
    rows, bias = torch.randn(PROBE_ROWS, PROBE_INPUTS, generator=generator), torch.zeros(PROBE_OUTPUTS)
    turned = _column_major(weight)
    torch.set_num_threads(1)  # threads that wait for each other on a busy machine would be measured, too
    try:
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch announces that these functions will be removed
            packed = torch.fbgemm_pack_gemm_matrix_fp16(weight)
            found = torch.fbgemm_linear_fp16_weight_fp32_activation(rows, packed, bias)
            exact = rows.double() @ weight.double().t()
            error = float((found - exact).abs().max() / exact.abs().max())
            if error > MAX_ERROR:
                return False
            ours = _best_time(lambda: torch.fbgemm_linear_fp16_weight_fp32_activation(rows, packed, bias))
            return ours < _best_time(lambda: functional.linear(rows, turned, bias))
    except (RuntimeError, NotImplementedError):  # another processor, or torch without these products
        return False
    finally:
        torch.set_num_threads(threads)


def _best_time(work: Callable[[], Tensor]) -> float:
    best = float("inf")
    for _ in range(PROBE_ROUNDS):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def _packed_product(weight: Tensor, bias: Tensor | None) -> Product:
    """x ↦ x Wᵀ + b with W packed in half precision; in float32 where a weight would overflow."""
    weight = weight.detach()
    if not weight.numel() or not bool(weight.abs().max() <= LARGEST):  # NaN, too
        return _transposed_product(weight, bias)
    packed = torch.fbgemm_pack_gemm_matrix_fp16(weight.contiguous())
    added = weight.new_zeros(weight.size(0)) if bias is None else bias.detach()
    multiply = torch.fbgemm_linear_fp16_weight_fp32_activation
    return lambda rows: multiply(rows, packed, added)


def _transposed_product(weight: Tensor, bias: Tensor | None) -> Product:
    """x ↦ x Wᵀ + b with W stored as Wᵀ."""
    turned, added = _column_major(weight.detach()), None if bias is None else bias.detach()
    return lambda rows: functional.linear(rows, turned, added)


class HalfLinear(nn.Linear):
    """x Wᵀ + b with W in half precision, for use only: with gradients, or another type, W is the plain one"""

    def __init__(self, plain: nn.Linear) -> None:
        nn.Module.__init__(self)  # the weights are those of `plain`
        self.in_features, self.out_features = plain.in_features, plain.out_features
        self.weight, self.bias = plain.weight, plain.bias
        self.product = _packed_product(self.weight, self.bias)
        self.train(plain.training)

    def forward(self, input: Tensor) -> Tensor:
        if torch.is_grad_enabled() or input.dtype is not torch.float32 or not input.numel():
            return super().forward(input)
        return self.product(input) if input.dim() > 1 else self.product(input.unsqueeze(0)).squeeze(0)


class HalfRecurrentStack(RecurrentStack):
    """A RecurrentStack whose single steps compute [W U] [x; h] + b as one product, with weights in half precision"""

    def __init__(self, plain: RecurrentStack) -> None:
        nn.Module.__init__(self)
        self.network, self.cell = plain.network, plain.cell
        self.size, self.layers = plain.size, plain.layers
        self.train(plain.training)
        cells = {"lstm": _lstm_cell, "gru": _gru_cell}
        self.cells = [cells.get(self.cell, _simple_cell)(plain, number) for number in range(self.layers)]

    def _cell(self, number: int, inputs: Tensor, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if torch.is_grad_enabled() or inputs.dtype is not torch.float32:
            return super()._cell(number, inputs, parts)
        return self.cells[number](inputs, parts)


Cell = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


def _lstm_cell(stack: RecurrentStack, number: int) -> Cell:
    """c' = σ(f) c + σ(i) tanh(g);  h' = σ(o) tanh(c').  The gates are computed in the order i, f, o, g."""
    w_ih, w_hh, b_ih, b_hh = stack.cell_weights(number)
    i, f, g, o = torch.cat([w_ih, w_hh], dim=1).detach().chunk(4)
    b_i, b_f, b_g, b_o = (b_ih + b_hh).detach().chunk(4)
    product = _packed_product(torch.cat([i, f, o, g]), torch.cat([b_i, b_f, b_o, b_g]))
    sigmoids = 3 * stack.size

    def cell(inputs: Tensor, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        gates = product(torch.cat([inputs, parts[0]], dim=1))  # [R, 4 H]
        gates[:, :sigmoids].sigmoid_()
        i, f, o, g = gates.chunk(4, dim=1)
        after = torch.addcmul(f * parts[1], i, g.tanh_())
        return o * after.tanh(), after

    return cell


def _gru_cell(stack: RecurrentStack, number: int) -> Cell:
    """h' = (1 - z) n + z h  with  n = tanh(W_n x + r (U_n h)):  two products, because r stands between them."""
    w_ih, w_hh, b_ih, b_hh = stack.cell_weights(number)
    of_inputs, of_state, H = _packed_product(w_ih, b_ih), _packed_product(w_hh, b_hh), stack.size

    def cell(inputs: Tensor, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        left, right = of_inputs(inputs), of_state(parts[0].contiguous())
        r, z = (left[:, : 2 * H] + right[:, : 2 * H]).sigmoid_().chunk(2, dim=1)
        n = torch.addcmul(left[:, 2 * H :], r, right[:, 2 * H :]).tanh_()
        return (torch.lerp(n, parts[0], z),)

    return cell


def _simple_cell(stack: RecurrentStack, number: int) -> Cell:
    """h' = g(W x + U h + b) with g = tanh or ReLU."""
    w_ih, w_hh, b_ih, b_hh = stack.cell_weights(number)
    product = _packed_product(torch.cat([w_ih, w_hh], dim=1), b_ih + b_hh)
    g = torch.tanh if stack.cell == "rnn" else torch.relu

    def cell(inputs: Tensor, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (g(product(torch.cat([inputs, parts[0]], dim=1))),)

    return cell


def _replace_parts(model: nn.Module) -> None:
    """Put half-precision parts in the place of dense layers and of recurrent networks that go step by step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for parent in list(model.modules()):
            for name, part in list(parent.named_children()):
                if isinstance(part, HalfLinear | HalfRecurrentStack):
                    continue
                if isinstance(part, nn.Linear):
                    setattr(parent, name, HalfLinear(part))
                elif isinstance(part, RecurrentStack):
                    setattr(parent, name, HalfRecurrentStack(part))


def pretranspose_weights(model: Model) -> Model:
    """The model with the same numbers in another order in memory: W [N, K] lies as Wᵀ does.

    Then a product need not turn W over first, which costs most when there are few rows: a last layer of 8,000 tokens
    takes 341 instead of 816 µs for one row, 2.9 instead of 3.7 ms for 42. A layer that shares its weights with a
    table of vectors gets its own, because vectors are read row by row.
    """
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    for part in model.modules():
        if isinstance(part, nn.Linear):
            turned = _column_major(part.weight.detach())
            if id(part.weight) in tables:
                part.weight = nn.Parameter(turned)
            else:
                part.weight.data = turned
        elif isinstance(part, nn.RNNBase):
            for name, weight in part.named_parameters():
                if name.startswith("weight"):
                    weight.data = _column_major(weight.detach())
    return model


def _column_major(weight: Tensor) -> Tensor:
    return weight.t().contiguous().t()
