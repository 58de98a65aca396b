"""Vectors that lie in rows and columns: where each stands, and all of them one after another."""
# R rows, T steps, d size
# B rows of a batch, n x m cells, E size

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from antiphon.errors import UserError
from antiphon.sequence import Sequence

__all__ = [
    "GridPositions",
    "LearntPositions",
    "NoPositions",
    "Positions",
    "SinusoidalPositions",
    "cell_names",
    "row_by_row",
]

# Where a token stands, told to a network that does not read in order.


class Positions(nn.Module, ABC):
    """x_t √d + p_t: vectors of about length 1 become about as long as what is added. Without scale: x_t + p_t"""

    longest: int | None = None  # positions in all; None: there is no end

    def __init__(self, *, size: int, scale: bool = True) -> None:
        super().__init__()
        self.size = size
        self.factor = size**0.5 if scale else 1.0

    def forward(self, tokens: Tensor, offset: int | Tensor = 0, real: Tensor | None = None) -> Tensor:
        """Vectors [R, T, d] whose first stands at position `offset`, one for all rows or one for each [R].

        Where rows begin at unequal positions, padding may stand further back than all that is `real` [R, T] (None:
        all is), and beyond the end of a table.
        """
        steps = torch.arange(tokens.size(1), device=tokens.device)
        if not isinstance(offset, Tensor):
            places, end = steps + offset, offset + tokens.size(1)  # [T]
        else:
            places = steps + offset.unsqueeze(1)  # [R, T]
            if real is not None and self.longest is not None:
                end = int(places.masked_fill(~real, 0).max()) + 1
                places = places.clamp(max=self.longest - 1)
            else:
                end = int(places.max()) + 1
        return torch.add(self.at(places, end, tokens), tokens, alpha=self.factor)

    @abstractmethod
    def at(self, places: Tensor, end: int, like: Tensor) -> Tensor:
        """The vectors of these positions, of the type of `like`; `end` is what the last real one is below."""


class SinusoidalPositions(Positions):
    """p[t, 2i] = sin(t / 10000^{2i/d}),  p[t, 2i+1] = cos(t / 10000^{2i/d})

    There is nothing to learn, so any length will do: the table grows when a longer sequence comes and is not saved.
    """

    def __init__(self, *, size: int, scale: bool = True) -> None:
        super().__init__(size=size, scale=scale)
        if size % 2:
            raise ValueError(f"sinusoidal positions are pairs of sin and cos, and {size} is odd")
        # Not a buffer: .double() would keep the digits of a float.
        self.known = torch.zeros(0, size)

    def at(self, places: Tensor, end: int, like: Tensor) -> Tensor:
        known = self.known  # of this call, whatever another thread puts there
        short = known.size(0) < end
        if short or known.dtype != like.dtype or known.device != like.device:
            with torch.inference_mode(False):  # made while searching, it is used in training too
                table = self.table(max(end, 2 * known.size(0)) if short else end)
                self.known = known = table.to(dtype=like.dtype, device=like.device)
        return known[places]

    def table(self, length: int) -> Tensor:
        """The first positions [length, d]."""
        pairs = torch.arange(0, self.size, 2, dtype=torch.float64)  # 2i
        angles = torch.arange(length, dtype=torch.float64).unsqueeze(1) / 10000 ** (pairs / self.size)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class LearntPositions(Positions):
    """p[t] = P[t], a table of so many rows"""

    def __init__(self, *, longest: int, size: int, scale: bool = True) -> None:
        super().__init__(size=size, scale=scale)
        self.longest = longest
        # As large as x √d: with smaller ones a network is slow to tell places apart.
        self.table = nn.Embedding(longest, size)
        nn.init.normal_(self.table.weight)

    def at(self, places: Tensor, end: int, like: Tensor) -> Tensor:  # noqa: ARG002 (it has the model's type)
        longest = self.table.num_embeddings
        if end > longest:
            raise UserError(
                f"a sequence of {end} tokens, but the model has learnt {longest} positions; "
                f"shorten it, or train with `longest: {end}` or with sinusoidal positions"
            )
        learnt: Tensor = self.table(places)
        return learnt


class NoPositions(Positions):
    """p_t = 0: the order is of no matter, or the vectors know it already"""

    def at(self, places: Tensor, end: int, like: Tensor) -> Tensor:  # noqa: ARG002 (all are alike)
        return like.new_zeros(1)


class GridPositions(nn.Module):
    """x_ij + [p_i; p_j] / √E: half of a vector says the row, half the column, by sin and cos

    x is of about length 1, and so is what is added: where an encoder multiplies by √E, p is as large as ever.
    """

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.size = size
        # Pairs of sin and cos for each half; if they do not make up the size, the last values are left out.
        self.sines = SinusoidalPositions(size=2 * -(-size // 4), scale=False)

    def forward(self, cells: Tensor) -> Tensor:
        """Cells [B, n, m, E]."""
        _, n, m, _ = cells.shape
        places = torch.arange(max(n, m), device=cells.device)
        known = self.sines.at(places, max(n, m), cells)
        rows, columns = known[:n, None].expand(n, m, -1), known[None, :m].expand(n, m, -1)
        return torch.add(cells, torch.cat([rows, columns], dim=-1)[..., : self.size], alpha=self.size**-0.5)


def row_by_row(cells: Tensor, widths: Tensor | None) -> Sequence:
    """Cells [B, n, m, E] as h_11 .. h_1m, h_21 .. h_nm [B, n m, E]; padding comes after the last real one.

    `widths` are the real columns of each [B]; None: all are.
    """
    B, n, m, E = cells.shape
    flat = cells.reshape(B, n * m, E)
    if widths is None:
        return Sequence(flat, torch.ones(B, n * m, dtype=torch.bool, device=cells.device))
    widths = widths.unsqueeze(1)
    steps = torch.arange(n * m, device=cells.device)
    mask = steps < n * widths
    places = torch.where(mask, steps // widths * m + steps % widths, 0)  # of each real cell among all
    values = flat.gather(1, places.unsqueeze(2).expand(-1, -1, E))
    return Sequence(values.masked_fill(~mask.unsqueeze(2), 0.0), mask)


def cell_names(n: int, m: int) -> list[str]:
    """'row,column' from 1; of a single row, the column."""
    if n == 1:
        return [str(j) for j in range(1, m + 1)]
    return [f"{i},{j}" for i in range(1, n + 1) for j in range(1, m + 1)]
