"""Padded batches and their masks: padding lives only here.

True in a mask is a real position, False is padding.
"""
# B batch, S source steps, T target steps, H state size, L layers

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["Memory", "Sequence"]


@dataclass(frozen=True)
class Sequence:
    """Rows of unequal length, padded at the end: values [B, S] or [B, S, D], mask [B, S]."""

    values: Tensor
    mask: Tensor

    @classmethod
    def of_ids(cls, rows: Items[Items[int] | np.ndarray], pad: int) -> Sequence:
        """Rows of ids, padded with `pad` to the longest."""
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        longest = max(1, int(lengths.max()) if len(rows) else 1)
        values = np.full((len(rows), longest), pad, dtype=np.int64)
        for values_row, row in zip(values, rows, strict=True):
            values_row[: len(row)] = row
        mask = torch.arange(longest).unsqueeze(0) < lengths.unsqueeze(1)
        return cls(torch.from_numpy(values), mask)

    @property
    def lengths(self) -> Tensor:
        """Real positions per row [B]."""
        return self.mask.sum(1)


@dataclass(frozen=True)
class Memory:
    """What the encoder knows: states h_1..h_n [B, S, H], mask [B, S], final h_n per layer [B, L, H]."""

    states: Tensor
    mask: Tensor
    final: Tensor
