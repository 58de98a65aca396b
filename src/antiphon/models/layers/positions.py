"""Positional encodings, in one dimension and in two."""
# R rows, T steps, d size; B images, n x m cells, E size

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from antiphon.errors import UserError

__all__ = ["LearntPositions", "NoPositions", "Positions", "SinusoidalPositions", "SinusoidalPositions2D"]


class Positions(nn.Module, ABC):
    """x_t √d + p_t: √d makes vectors of length 1 about as long as p_t. Without scale: x_t + p_t"""

    longest: int | None = None  # the number of positions; None: unlimited

    def __init__(self, *, size: int, scale: bool = True) -> None:
        super().__init__()
        self.size = size
        self.factor = size**0.5 if scale else 1.0

    def forward(self, tokens: Tensor, offset: int | Tensor = 0, real: Tensor | None = None) -> Tensor:
        """Vectors [R, T, d] of which the first is at position `offset`, one number or one for each row [R].

        Where the offsets differ, padding may lie beyond the last position; `real` [R, T] is a mask (None: no padding).
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
        """The encodings of these positions, with the type of `like`; real positions are below `end`."""


class SinusoidalPositions(Positions):
    """p[t, 2i] = sin(t / 10000^{2i/d}),  p[t, 2i+1] = cos(t / 10000^{2i/d})

    Without parameters any length is possible: the table is a cache that grows with the longest sequence, not saved.
    """

    def __init__(self, *, size: int, scale: bool = True) -> None:
        super().__init__(size=size, scale=scale)
        if size % 2:
            raise ValueError(f"sinusoidal positions are pairs of sin and cos, and {size} is odd")
        # Not a buffer: .double() would keep the precision of float32.
        self.cache = torch.zeros(0, size)

    def at(self, places: Tensor, end: int, like: Tensor) -> Tensor:
        cache = self.cache  # read once: another thread may replace it
        short = cache.size(0) < end
        if short or cache.dtype != like.dtype or cache.device != like.device:
            with torch.inference_mode(False):  # the cache of a search is used in training, too
                table = self.table(max(end, 2 * cache.size(0)) if short else end)
                self.cache = cache = table.to(dtype=like.dtype, device=like.device)
        return cache[places]

    def table(self, length: int) -> Tensor:
        """The first positions [length, d]."""
        pairs = torch.arange(0, self.size, 2, dtype=torch.float64)  # 2i
        angles = torch.arange(length, dtype=torch.float64).unsqueeze(1) / 10000 ** (pairs / self.size)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class LearntPositions(Positions):
    """p[t] = P[t], a learnt table of `longest` rows"""

    def __init__(self, *, longest: int, size: int, scale: bool = True) -> None:
        super().__init__(size=size, scale=scale)
        self.longest = longest
        # As large as x √d: with a smaller variance, positions are learnt slowly.
        self.table = nn.Embedding(longest, size)
        nn.init.normal_(self.table.weight)

    def at(self, places: Tensor, end: int, like: Tensor) -> Tensor:  # noqa: ARG002 (the table has the model's type)
        longest = self.table.num_embeddings
        if end > longest:
            raise UserError(
                f"a sequence of {end} tokens, but the model has learnt {longest} positions; "
                f"shorten it, or train with `longest: {end}` or with sinusoidal positions"
            )
        learnt: Tensor = self.table(places)
        return learnt


class NoPositions(Positions):
    """p_t = 0: for sets, and for vectors that already encode their positions"""

    def at(self, places: Tensor, end: int, like: Tensor) -> Tensor:  # noqa: ARG002 (all are 0)
        return like.new_zeros(1)


class SinusoidalPositions2D(nn.Module):
    """x_ij + [p_i; p_j] / √E: half of the encoding is the row's, half the column's

    Both terms have length about 1; an encoder that multiplies by √E restores the usual size of p.
    """

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.size = size
        # Pairs of sin and cos for each half; where they exceed the size, the last values are cut off.
        self.sines = SinusoidalPositions(size=2 * -(-size // 4), scale=False)

    def forward(self, cells: Tensor) -> Tensor:
        """Cells [B, n, m, E]."""
        _, n, m, _ = cells.shape
        places = torch.arange(max(n, m), device=cells.device)
        cache = self.sines.at(places, max(n, m), cells)
        rows, columns = cache[:n, None].expand(n, m, -1), cache[None, :m].expand(n, m, -1)
        return torch.add(cells, torch.cat([rows, columns], dim=-1)[..., : self.size], alpha=self.size**-0.5)
