"""Dense layers with weights of 8 bits: smaller, on many processors faster, and a little less exact.

A row of weights has its own scale, fixed when the model is loaded; what goes in is quantised as it comes, with one
scale for all that is computed together. So an answer can depend, in its last digits, on its company: the one place
where it can.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from antiphon.errors import UserError
from antiphon.models.attention import Score
from antiphon.models.model import SequenceModel

__all__ = ["Int8Linear", "with_int8"]

LARGEST = 127
DEPRECATED = (
    "torch.quantize_per_tensor, torch.quantize_per_channel"  # torch plans to move it; there is no other way yet
)


class Int8Linear(nn.Module):
    """y ≈ s_x s_w (x_8 · W_8) + b"""

    def __init__(self, dense: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = dense.in_features, dense.out_features
        weight = dense.weight.detach()
        scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(weight.dtype).tiny) / LARGEST
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=DEPRECATED)
            small = torch.quantize_per_channel(weight, scales.double(), torch.zeros_like(scales).long(), 0, torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(small, None if dense.bias is None else dense.bias.detach())

    def forward(self, values: Tensor) -> Tensor:
        # 7 bits for what goes in: older processors add up products of 8 bits in 16, which would overflow.
        found: Tensor = torch.ops.quantized.linear_dynamic(values, self._packed, reduce_range=True)
        return found


def with_int8(model: SequenceModel) -> SequenceModel:
    """The model, its dense layers replaced; scores of attention keep theirs, which are small and read apart."""
    if torch.backends.quantized.engine == "none":
        raise UserError("int8: this build of torch cannot compute with 8 bits; leave it out, or export to ctranslate2")
    _replace(model)
    model.engine = "torch int8"
    return model


def _replace(module: nn.Module) -> None:
    for name, part in module.named_children():
        if isinstance(part, nn.Linear):
            setattr(module, name, Int8Linear(part))
        elif not isinstance(part, Score):
            _replace(part)
