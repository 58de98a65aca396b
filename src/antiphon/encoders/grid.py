"""Vectors that lie in rows and columns: where each stands, and all of them one after another."""
# B rows of a batch, n x m cells, E size

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.encoders.positions import SinusoidalPositions
from antiphon.sequence import Sequence

__all__ = ["GridPositions", "cell_names", "row_by_row"]


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
