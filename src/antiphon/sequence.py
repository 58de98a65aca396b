"""Padded batches and their masks; padding is handled only here.

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

__all__ = ["NO_COPY", "Carried", "Memory", "MultiSource", "Sequence", "State"]

NO_COPY = -1  # instead of a target token


@dataclass(frozen=True)
class Sequence:
    """Rows of unequal length, padded at the end: values [B, S] or [B, S, D], mask [B, S]."""

    values: Tensor
    mask: Tensor
    copies: Tensor | None = None  # [B, S]: the target token of each position, or NO_COPY; None: not needed

    @classmethod
    def of_ids(cls, rows: Items[Items[int] | np.ndarray], pad: int) -> Sequence:
        """Rows of ids, padded with `pad` to the longest."""
        longest = max([1, *map(len, rows)])
        return cls._padded(np.full((len(rows), longest), pad, dtype=np.int64), rows)

    @classmethod
    def of_vectors(cls, rows: Items[np.ndarray]) -> Sequence:
        """Rows of vectors [S, D], padded with 0 to the longest."""
        return cls._padded(np.zeros((len(rows), max(map(len, rows)), rows[0].shape[1]), dtype=np.float32), rows)

    @classmethod
    def _padded(cls, values: np.ndarray, rows: Items[Items[int] | np.ndarray]) -> Sequence:
        """`values`, which are all padding, with the rows written into them."""
        for values_row, row in zip(values, rows, strict=True):
            values_row[: len(row)] = row
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        return cls(torch.from_numpy(values), torch.arange(values.shape[1]).unsqueeze(0) < lengths.unsqueeze(1))

    @classmethod
    def joined(cls, parts: Items[Sequence]) -> Sequence:
        """Vectors one after another in each row [B, S_1 + S_2 + .., D]; all padding goes to the end."""
        values = torch.cat([part.values for part in parts], dim=1)
        mask = torch.cat([part.mask for part in parts], dim=1)
        order = torch.argsort(~mask, dim=1, stable=True)[:, : int(mask.sum(1).max())]
        index = order.unsqueeze(-1).expand(-1, -1, values.size(-1))
        return cls(values.gather(1, index), mask.gather(1, order), MultiSource(tuple(parts)).copies)

    @property
    def last(self) -> Tensor:
        """The values at the last real position of each row [B, D]."""
        last = (self.lengths - 1).view(-1, 1, 1).expand(-1, 1, self.values.size(-1))
        return self.values.gather(1, last).squeeze(1)

    @property
    def lengths(self) -> Tensor:
        """Real positions per row [B]."""
        return self.mask.sum(1)


@dataclass(frozen=True)
class MultiSource:
    """Several sources of the same examples: row b of each part belongs to example b."""

    parts: tuple[Sequence, ...]

    @property
    def mask(self) -> Tensor:
        """The masks of all parts side by side [B, S_1 + S_2 + ..]."""
        return torch.cat([part.mask for part in self.parts], dim=1)

    @property
    def copies(self) -> Tensor | None:
        """The copies of all parts, joined as `Sequence.joined` does [B, S]; NO_COPY for a part without any."""
        if all(part.copies is None for part in self.parts):
            return None
        columns = [
            torch.full_like(part.mask, NO_COPY, dtype=torch.long) if part.copies is None else part.copies
            for part in self.parts
        ]
        both = zip(columns, self.parts, strict=True)
        return Sequence.joined([Sequence(column.unsqueeze(-1), part.mask) for column, part in both]).values.squeeze(-1)


@dataclass(frozen=True)
class Memory:
    """The output of an encoder: states h_1..h_n [B, S, H], mask [B, S], final h_n per layer [B, L, H].

    An encoder that is no recurrent network has one final state, that of the last real position [B, 1, H].
    """

    states: Tensor
    mask: Tensor
    final: Tensor
    copies: Tensor | None = None  # [B, S]: the target token of each position, or NO_COPY; None: not needed

    @classmethod
    def nothing(cls, rows: int) -> Memory:
        """The memory of a decoder without a source."""
        return cls(torch.zeros(rows, 0, 0), torch.zeros(rows, 0, dtype=torch.bool), torch.zeros(rows, 0, 0))


class State(Protocol):
    """The state of a decoder, as a value: one row for each hypothesis; those of a sentence are neighbours."""

    def select(self, rows: Tensor) -> Self:
        """The state in which new row (b, j) continues old row rows[b, j]; rows [B', k'].

        Sentences keep their order and may leave; one row of `rows` names old rows of one sentence only.
        """
        ...


class Carried(State, Protocol):
    """A state that is kept from batch to batch, and saved in a checkpoint in between."""

    def detach(self) -> Self:
        """The same values, through which no gradient flows back."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Its values by name."""
        ...
