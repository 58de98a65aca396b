"""Padded batches and their masks: padding lives only here.

True in a mask is a real position, False is padding.
"""
# B batch, S source steps, T target steps, H state size, L layers

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

__all__ = ["Carried", "Memory", "Sequence", "State"]


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
    def last(self) -> Tensor:
        """What stands at the last real position of each row [B, D]."""
        last = (self.lengths - 1).view(-1, 1, 1).expand(-1, 1, self.values.size(-1))
        return self.values.gather(1, last).squeeze(1)

    @property
    def lengths(self) -> Tensor:
        """Real positions per row [B]."""
        return self.mask.sum(1)


@dataclass(frozen=True)
class Memory:
    """What the encoder knows: states h_1..h_n [B, S, H], mask [B, S], final h_n per layer [B, L, H].

    An encoder that is no recurrent network has one final state, that of the last real position [B, 1, H].
    """

    states: Tensor
    mask: Tensor
    final: Tensor

    @classmethod
    def nothing(cls, rows: int) -> Memory:
        """What a decoder without a source is told."""
        return cls(torch.zeros(rows, 0, 0), torch.zeros(rows, 0, dtype=torch.bool), torch.zeros(rows, 0, 0))


class State(Protocol):
    """Where a decoder stands, as a value: one row for each hypothesis; those of a sentence lie side by side."""

    def select(self, rows: Tensor) -> Self:
        """The state in which new row (b, j) continues old row rows[b, j]; rows [B', k'].

        Sentences keep their order and may leave; one row of `rows` names old rows of one sentence only.
        """
        ...


class Carried(State, Protocol):
    """A state that goes on from batch to batch, and lies in a checkpoint in between."""

    def detach(self) -> Self:
        """The same values, through which no gradient flows back."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Its values by name."""
        ...
