"""Cross-entropy of an output layer, computed with its gradient in blocks of rows, without a table of all logits."""
# N rows, n rows of a block, D size of a row, V vocabulary

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["blockwise_cross_entropy"]

BLOCK_LOGITS = 2**21  # of a block: 8 MB, which stay in the cache of a processor


def blockwise_cross_entropy(
    outputs: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Return -Σ_n Σ_v q_n(v) log p_n(v) and, without gradient, -Σ_n log p_n(y_n).

    p_n = softmax(W o_n + b) and q_n(v) = (1 - ε) [v = y_n] + ε / V, with outputs o [N, D], weight W [V, D], bias b [V]
    and targets y [N]. `cross_entropy` in step.py is the same formula for logits; a test binds them. Under autocast the
    products are computed with fewer bits, softmax and sums in float32.
    """
    total, plain = BlockwiseCrossEntropy.apply(outputs, weight, bias, targets, smoothing)  # type: ignore[no-untyped-call]
    return total, plain


class BlockwiseCrossEntropy(torch.autograd.Function):
    """∂total/∂logits = p - q, computed while a block of logits is in the cache"""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 (torch has no public type for it)
        outputs: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        device = outputs.device.type
        mixed = torch.is_autocast_enabled(device) and weight.dtype == torch.float32
        precision = torch.get_autocast_dtype(device) if mixed else weight.dtype
        with torch.autocast(device, enabled=False):
            work = OutputGradients(outputs.to(precision), weight.to(precision), bias, smoothing)
            rows = max(1, BLOCK_LOGITS // weight.size(0))
            for first in range(0, len(targets), rows):
                work.add(slice(first, first + rows), targets[first : first + rows])
            total = work.finish(outputs.sum(0).to(weight.dtype), weight.mean(0))
        ctx.save_for_backward(work.for_outputs.to(outputs.dtype), work.for_weight, work.for_bias)
        ctx.mark_non_differentiable(work.plain)
        return total, work.plain

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        return (*(part * scale for part in ctx.saved_tensors), None, None)


class OutputGradients:
    """The gradients of the loss by o, W and b, and its sums, added up block by block."""

    def __init__(self, outputs: Tensor, weight: Tensor, bias: Tensor, smoothing: float) -> None:
        """Outputs and weight may have fewer bits than the bias; the sums have as many as the bias."""
        self.outputs, self.weight, self.bias, self.smoothing = outputs, weight, bias, smoothing
        self.layer_bias = bias.to(weight.dtype)
        self.for_outputs = torch.empty_like(outputs)
        self.for_weight = torch.zeros_like(weight, dtype=bias.dtype)
        self.for_bias = torch.zeros_like(bias)
        self.plain = self.normalizers = bias.new_zeros(())  # -Σ_n log p_n(y_n), Σ_n log Σ_v exp(logit_nv)

    def add(self, rows: slice, targets: Tensor) -> None:
        """Add the part p - (1 - ε) [v = y] of the gradient for some rows."""
        outputs, wanted = self.outputs[rows], targets.unsqueeze(1)
        logits = torch.addmm(self.layer_bias, outputs, self.weight.t()).to(self.bias.dtype)  # [n, V]
        p = torch.softmax(logits, dim=-1)
        # log Σ exp = logit - log p of any token, here of the most probable one: so the loss is never below 0, and exact
        # for a token that is nearly certain
        highest, log_highest = logits.amax(dim=-1), p.amax(dim=-1).log()
        self.plain = self.plain + (highest - logits.gather(1, wanted).squeeze(1) - log_highest).sum()
        self.normalizers = self.normalizers + (highest - log_highest).sum()
        p.scatter_add_(1, wanted, p.new_full((), self.smoothing - 1.0).expand_as(wanted))
        self.for_bias += p.sum(dim=0)
        p = p.to(self.weight.dtype)
        torch.mm(p, self.weight, out=self.for_outputs[rows])
        if self.for_weight.dtype == p.dtype:
            self.for_weight.addmm_(p.t(), outputs)
        else:
            self.for_weight += p.t() @ outputs

    def finish(self, sum_of_outputs: Tensor, mean_weight: Tensor) -> Tensor:
        """Add the part ε / V of the gradient, which is the same for all tokens; return the smoothed loss."""
        count, share = self.outputs.size(0), self.smoothing / self.bias.size(0)
        self.for_outputs -= self.smoothing * mean_weight.to(self.for_outputs.dtype)
        self.for_weight -= share * sum_of_outputs
        self.for_bias -= share * count
        mean_scores = sum_of_outputs @ mean_weight + count * self.bias.mean()
        return (1.0 - self.smoothing) * self.plain + self.smoothing * (self.normalizers - mean_scores)
