"""How scores become weights."""
# B batch, Q queries, S source steps

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["SoftAlignment"]


class SoftAlignment(nn.Module):
    """α_ij = softmax_j(score_ij) over the real positions; padding gets exactly 0"""

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Scores [B, Q, S] and mask [B, S] → weights [B, Q, S]."""
        return torch.softmax(scores.masked_fill(~mask.unsqueeze(1), float("-inf")), dim=-1)
