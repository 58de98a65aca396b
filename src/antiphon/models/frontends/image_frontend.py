"""Fronts for pictures and videos: from pixels to the vectors that an encoder reads."""
# B pictures, C channels, H rows, W columns
# B rows, S columns of pixels, H height, W width, C colours, n x m cells, T frames, E size

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.config.sources import (
    CellsConfig,
    FrameCellsConfig,
    FramesConfig,
    ImageConfig,
    PatchesConfig,
    PictureConfig,
)
from antiphon.models.layers.blocks import unit_linear
from antiphon.models.layers.positions import GridPositions, cell_names, row_by_row
from antiphon.sequence import Sequence

__all__ = [
    "CellsFront",
    "FrameCellsFront",
    "PatchesFront",
    "PictureNorm",
    "ResidualBlock",
    "ResidualCells",
    "convolution",
]

# A residual network of convolutions over pictures, which padding does not change.


class PictureNorm(nn.Module):
    """relu(γ_c (x - mean) / √(var + ε) + β_c), over all channels and real cells of one picture [B, C, H, W]

    No other picture has a say, and what lies behind a picture is 0 again, so that the next convolution sees the same as
    in a batch of one. A norm of each cell for itself would make faint cells as strong as others: digits that move
    through a video were not learnt with it.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, cells: Tensor, real: Tensor | None = None) -> Tensor:
        """`real` [B, 1, 1, W] is 1 where a column is of the picture; None: everywhere."""
        if real is None:
            return functional.group_norm(cells, 1, self.weight, self.bias, self.eps).relu_()
        number = real.sum((1, 2, 3), keepdim=True) * cells.size(1) * cells.size(2)
        mean = (cells * real).sum((1, 2, 3), keepdim=True) / number
        centred = (cells - mean) * real
        var = centred.square().sum((1, 2, 3), keepdim=True) / number
        weight, bias = self.weight.view(1, -1, 1, 1), self.bias.view(1, -1, 1, 1)
        return (centred * torch.rsqrt(var + self.eps) * weight + bias * real).relu_()


class ResidualBlock(nn.Module):
    """x + W_2 * relu(norm(W_1 * relu(norm(x)))), two convolutions of 3 x 3 (He et al. 2016)"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1, self.convolution1 = PictureNorm(channels), convolution(channels, channels)
        self.norm2, self.convolution2 = PictureNorm(channels), convolution(channels, channels)

    def forward(self, cells: Tensor, real: Tensor | None) -> Tensor:
        inner = self.convolution1(self.norm1(cells, real))
        outer: Tensor = self.convolution2(self.norm2(inner, real))
        return cells + outer


class ResidualCells(nn.Module):
    """Stages; each is a convolution that halves height and width (rounded up), blocks, and a norm

    The last `wide` stages halve the height only. Cells are `down` times lower and `across` times narrower than pixels.
    """

    def __init__(self, *, inputs: int, channels: list[int], blocks: int, wide: int = 0) -> None:
        super().__init__()
        before = [inputs, *channels[:-1]]
        steps = [(2, 2)] * (len(channels) - wide) + [(2, 1)] * wide
        self.halves = nn.ModuleList(
            convolution(i, o, stride=step) for i, o, step in zip(before, channels, steps, strict=True)
        )
        self.blocks = nn.ModuleList(nn.ModuleList(ResidualBlock(size) for _ in range(blocks)) for size in channels)
        self.norms = nn.ModuleList(PictureNorm(size) for size in channels)
        self.size, self.down, self.across = channels[-1], 2 ** len(channels), 2 ** (len(channels) - wide)

    def forward(self, pixels: Tensor, widths: Tensor | None) -> Tensor:
        """Cells [B, C', H', W'] of pixels [B, C, H, W] that are 0 behind each picture's width; None: all have W."""
        cells = pixels.contiguous()
        for half, blocks, norm in zip(self.halves, self.blocks, self.norms, strict=True):
            cells, widths = half(cells), None if widths is None else -(-widths // half.stride[1])  # type: ignore[index]
            real = None if widths is None else _real(widths, cells)
            for block in blocks:  # type: ignore[attr-defined]
                cells = block(cells, real)
            cells = norm(cells, real)
        return cells


def _real(widths: Tensor, cells: Tensor) -> Tensor:
    """1 where a column is of the picture, 0 behind it [B, 1, 1, W]."""
    columns = torch.arange(cells.size(3), device=cells.device)
    return (columns < widths.unsqueeze(1))[:, None, None, :].to(cells.dtype)


def convolution(inputs: int, outputs: int, stride: tuple[int, int] = (1, 1)) -> nn.Conv2d:
    """3 x 3, without a bias: the norm behind it has one."""
    made = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(made.weight, nonlinearity="relu")
    return made


FAINTEST = 1 / 127.5  # one shade of grey: what varies less is not made stronger
Whole = TypeVar("Whole", int, Tensor)


class CellsFront(nn.Module):
    """h_ij = norm(W c_ij + b) + p_ij, row by row; c_ij are the cells of a residual network, and their shades

    The shades are x and -x, x the mean colours of a cell's pixels: the network sees a picture standardised, and to it
    grey on white is the same as black on white. With `columns` the cells of a column make one vector, without shades:
    h_j = norm(W [max_i c_ij; c_1j; ..] + b) + p_1j. With `whole` W_whole max_ij c_ij is added before the norm, so that
    what is large, darkest and lightest is known everywhere. The norm makes a vector as long as those of tokens:
    without it they grow, and what says the place is lost beside them.
    """

    def __init__(self, *, config: CellsConfig, reader: ImageConfig, size: int) -> None:
        super().__init__()
        self.size = size
        self.height = reader.height
        self.columns = config.columns
        self.network = ResidualCells(
            inputs=_colours(reader), channels=config.channels, blocks=config.blocks, wide=config.wide
        )
        cell = self.network.size + (0 if config.columns else 2 * _colours(reader))
        stacked = 1 + _up(reader.height, self.network.down) if config.columns else 1
        self.W = unit_linear(stacked * cell, size)
        self.W_whole = unit_linear(cell, size) if config.whole else None
        self.norm = nn.LayerNorm(size)
        self.positions = GridPositions(size=size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, source: Sequence) -> Sequence:
        """Values [B, S, H C] become [B, n m, E]."""
        pixels, widths = _pixels(source, self.height), _widths(source)
        cells = self.network(pixels, widths).permute(0, 2, 3, 1)  # [B, n, m, C']; what is not real is 0, none is less
        if not self.columns:
            shades = _shades(source, self.height, self.network.down, self.network.across)
            cells = torch.cat([cells, shades], dim=-1)
        whole = 0.0 if self.W_whole is None else self.W_whole(cells.amax((1, 2), keepdim=True))
        if self.columns:
            cells = _with_most(cells.transpose(1, 2)).unsqueeze(1)  # [B, 1, m, (1 + n) C']
        cells = self.norm(self.W(cells) + whole) / self.size**0.5
        cells = self.dropout(self.positions(cells))
        return row_by_row(cells, None if widths is None else _up(widths, self.network.across))

    def names(self, length: int) -> list[str]:
        return cell_names(*self.grid(length))

    def grid(self, length: int) -> tuple[int, int]:
        """n rows and m columns of vectors, for a picture of so many columns of pixels."""
        rows = 1 if self.columns else _up(self.height, self.network.down)
        return rows, _up(length, self.network.across)


class PatchesFront(nn.Module):
    """h_ij = W x_ij + b + p_ij, x_ij the pixels of a square (Dosovitskiy et al. 2021)

    Where squares reach beyond the picture, they are filled up with 0.
    """

    def __init__(self, *, config: PatchesConfig, reader: ImageConfig, size: int) -> None:
        super().__init__()
        self.size = size
        self.height = reader.height
        self.patch = config.patch
        self.W = unit_linear(_colours(reader) * config.patch**2, size)
        self.positions = GridPositions(size=size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, source: Sequence) -> Sequence:
        """Values [B, S, H C] become [B, n m, E]."""
        pixels, widths, patch = _pixels(source, self.height), _widths(source), self.patch
        _, _, H, W = pixels.shape
        filled = functional.pad(pixels, (0, -W % patch, 0, -H % patch))
        squares = filled.unfold(2, patch, patch).unfold(3, patch, patch)  # [B, C, n, m, patch, patch]
        cells = self.dropout(self.positions(self.W(squares.permute(0, 2, 3, 1, 4, 5).flatten(3))))
        return row_by_row(cells, None if widths is None else _up(widths, patch))

    def names(self, length: int) -> list[str]:
        return cell_names(*self.grid(length))

    def grid(self, length: int) -> tuple[int, int]:
        """n rows and m columns of squares, for a picture of so many columns of pixels."""
        return _up(self.height, self.patch), _up(length, self.patch)


class FrameCellsFront(nn.Module):
    """h_t = norm(W_what max_ij c_ij + W_where [c_11; ..; c_nm] + b), c_ij the cells of frame t"""

    def __init__(self, *, config: FrameCellsConfig, reader: FramesConfig, size: int) -> None:
        super().__init__()
        self.size = size
        self.frame = (reader.height, reader.width, _colours(reader))
        self.network = ResidualCells(inputs=_colours(reader), channels=config.channels, blocks=config.blocks)
        cells = _up(reader.height, self.network.down) * _up(reader.width, self.network.across)
        self.W_what = unit_linear(self.network.size, size)
        self.W_where = unit_linear(cells * self.network.size, size)
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, source: Sequence) -> Sequence:
        """Values [B, T, H W C] become [B, T, E]; the network sees the real frames only."""
        real = source.values[source.mask]  # [all frames, H W C]
        frames = _standardised(real.unsqueeze(1), torch.ones_like(real[:, :1], dtype=torch.bool))
        pixels = frames.reshape(-1, *self.frame).permute(0, 3, 1, 2)
        cells = self.network(pixels, None).permute(0, 2, 3, 1).flatten(1, 2)  # [all frames, n m, C']
        vectors = self.norm(self.W_what(cells.amax(1)) + self.W_where(cells.flatten(1))) / self.size**0.5
        values = vectors.new_zeros(*source.mask.shape, self.size)
        values[source.mask] = vectors
        return Sequence(self.dropout(values), source.mask)

    def names(self, length: int) -> list[str]:
        """The numbers of the frames."""
        return cell_names(1, length)

    def grid(self, length: int) -> None:  # noqa: ARG002 (pictures have one)
        """A frame is one vector."""
        return


def _with_most(cells: Tensor) -> Tensor:
    """The most that any cell says of each channel, then what each says: [..., n, C] become [..., (1 + n) C].

    What is there is learnt sooner from the most, wherever it is (decision 0020).
    """
    return torch.cat([cells.amax(dim=-2), cells.flatten(-2)], dim=-1)


def _pixels(source: Sequence, height: int) -> Tensor:
    """[B, S, H C] as pictures [B, C, H, S], standardised, 0 behind each."""
    values = _standardised(source.values, source.mask)
    return values.reshape(*values.shape[:2], height, -1).permute(0, 3, 2, 1)


def _shades(source: Sequence, height: int, down: int, across: int) -> Tensor:
    """The mean x of the real pixels of each square of down x across, as they were read, and -x [B, n, m, 2 C].

    Where none is real it is less than any, so that it is not the most of a picture.
    """
    values, (rows, steps) = source.values, source.mask.shape
    real = source.mask.to(values.dtype)
    pixels = (values * real.unsqueeze(2)).reshape(rows, steps, height, -1).permute(0, 3, 2, 1)  # [B, C, H, S]
    counted = real.view(rows, 1, 1, steps).expand(-1, 1, height, -1)
    sums, numbers = (
        functional.avg_pool2d(one, (down, across), ceil_mode=True, divisor_override=1) for one in (pixels, counted)
    )
    means = sums / numbers.clamp_min(1.0)
    return torch.cat([means, -means], dim=1).masked_fill(numbers == 0.0, -1.0).permute(0, 2, 3, 1)


def _standardised(values: Tensor, mask: Tensor) -> Tensor:
    """(x - mean) / √var over all real pixels of each picture [B, S, D]; what is not real is 0.

    So paper is near 0 as what surrounds a picture is. Where it was 1, its edge was all that a network saw at first:
    shapes and digits took two to four times the updates.
    """
    real = mask.unsqueeze(2)
    number = real.sum((1, 2), keepdim=True) * values.size(2)
    centred = (values - (values * real).sum((1, 2), keepdim=True) / number) * real
    var = centred.square().sum((1, 2), keepdim=True) / number
    return centred / var.sqrt().clamp_min(FAINTEST)


def _widths(source: Sequence) -> Tensor | None:
    """Real columns of pixels of each picture [B]; None: all are real."""
    return None if bool(source.mask.all()) else source.lengths


def _colours(reader: PictureConfig) -> int:
    return 3 if reader.colour else 1


def _up(number: Whole, by: int) -> Whole:
    """⌈number / by⌉"""
    return -(-number // by)
