"""Front ends for images and videos: from pixels to the vectors that an encoder reads."""
# B images, C channels, H height, W width, S = W columns of pixels, n x m cells, T frames, E size

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.models.frontends.frontend import FrontEnd, unit_norm_linear
from antiphon.models.layers.dropout import Dropout
from antiphon.models.layers.positions import SinusoidalPositions2D
from antiphon.sequence import Sequence

__all__ = ["FrameFrontEnd", "PatchFrontEnd", "ResNetFrontEnd"]

MIN_DEVIATION = 1 / 127.5  # one grey level: noise below it is not amplified
IntOrTensor = TypeVar("IntOrTensor", int, Tensor)


class MaskedGroupNorm(nn.Module):
    """relu(γ_c (x - mean) / √(var + ε) + β_c), over all channels and real cells of one image [B, C, H, W]

    The statistics ignore other images and padding, and padding is 0 again afterwards, so that the next convolution
    computes the same as in a batch of one. Normalising each cell on its own would amplify faint cells: with it, moving
    digits in a video were not learnt.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, cells: Tensor, real: Tensor | None = None) -> Tensor:
        """`real` [B, 1, 1, W] is 1 in the columns of the image and 0 in padding; None: there is no padding."""
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
        self.norm1, self.convolution1 = MaskedGroupNorm(channels), conv3x3(channels, channels)
        self.norm2, self.convolution2 = MaskedGroupNorm(channels), conv3x3(channels, channels)

    def forward(self, cells: Tensor, real: Tensor | None) -> Tensor:
        inner = self.convolution1(self.norm1(cells, real))
        outer: Tensor = self.convolution2(self.norm2(inner, real))
        return cells + outer


class ResNet(nn.Module):
    """Stages of: a convolution of stride 2 (sizes are rounded up), residual blocks, and a norm

    The last `wide` stages halve the height only. A cell is `down` pixels high and `across` pixels wide.
    """

    def __init__(self, *, inputs: int, channels: list[int], blocks: int, wide: int = 0) -> None:
        super().__init__()
        before = [inputs, *channels[:-1]]
        strides = [(2, 2)] * (len(channels) - wide) + [(2, 1)] * wide
        self.halves = nn.ModuleList(
            conv3x3(i, o, stride=stride) for i, o, stride in zip(before, channels, strides, strict=True)
        )
        self.blocks = nn.ModuleList(nn.ModuleList(ResidualBlock(size) for _ in range(blocks)) for size in channels)
        self.norms = nn.ModuleList(MaskedGroupNorm(size) for size in channels)
        self.size, self.down, self.across = channels[-1], 2 ** len(channels), 2 ** (len(channels) - wide)

    def forward(self, pixels: Tensor, widths: Tensor | None) -> Tensor:
        """Pixels [B, C, H, W], 0 beyond the widths [B] (None: all are W) → cells [B, C', H', W']."""
        cells = pixels.contiguous()
        for half, blocks, norm in zip(self.halves, self.blocks, self.norms, strict=True):
            cells, widths = half(cells), None if widths is None else _ceil_div(widths, half.stride[1])  # type: ignore[index,arg-type]
            real = None if widths is None else _real_columns(widths, cells)
            for block in blocks:  # type: ignore[attr-defined]
                cells = block(cells, real)
            cells = norm(cells, real)
        return cells


def _real_columns(widths: Tensor, cells: Tensor) -> Tensor:
    """1 in the columns of the image, 0 in padding [B, 1, 1, W]."""
    columns = torch.arange(cells.size(3), device=cells.device)
    return (columns < widths.unsqueeze(1))[:, None, None, :].to(cells.dtype)


def conv3x3(inputs: int, outputs: int, stride: tuple[int, int] = (1, 1)) -> nn.Conv2d:
    """A convolution without a bias, since a norm with one follows."""
    convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
    return convolution


class GridFrontEnd(FrontEnd):
    """A front end whose vectors form a grid; `names` are `row,column` from 1, or the column of a single row."""

    def names(self, length: int) -> list[str]:
        n, m = self.grid(length) or (1, length)
        return [f"{i},{j}" if n > 1 else str(j) for i in range(1, n + 1) for j in range(1, m + 1)]


class ResNetFrontEnd(GridFrontEnd):
    """h_ij = norm(W c_ij + b) + p_ij, row by row; c_ij are the cells of a residual network, and their shades

    The shades are x and -x, x the mean colours of a cell's pixels: the network sees a standardised image, in which grey
    on white equals black on white. With `columns` the cells of a column make one vector, without shades:
    h_j = norm(W [max_i c_ij; c_1j; ..] + b) + p_1j. With `whole` the global max pooling W_whole max_ij c_ij is added
    before the norm. The norm keeps vectors as long as token embeddings; without it they outgrow their positions.
    """

    def __init__(
        self,
        *,
        size: int,
        height: int,
        colours: int,
        channels: list[int],
        blocks: int,
        wide: int,
        columns: bool,
        whole: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.size = size
        self.height = height
        self.columns = columns
        self.network = ResNet(inputs=colours, channels=channels, blocks=blocks, wide=wide)
        cell = self.network.size + (0 if columns else 2 * colours)
        stacked = 1 + _ceil_div(height, self.network.down) if columns else 1
        self.W = unit_norm_linear(stacked * cell, size)
        self.W_whole = unit_norm_linear(cell, size) if whole else None
        self.norm = nn.LayerNorm(size)
        self.positions = SinusoidalPositions2D(size=size)
        self.dropout = Dropout(dropout)

    def forward(self, source: Sequence) -> Sequence:
        """Values [B, S, H C] → [B, n m, E]."""
        pixels, widths = _pixels(source, self.height), _widths(source)
        cells = self.network(pixels, widths).permute(0, 2, 3, 1)  # [B, n, m, C'], ≥ 0; padding is 0
        if not self.columns:
            shades = _shades(source, self.height, self.network.down, self.network.across)
            cells = torch.cat([cells, shades], dim=-1)
        pooled = 0.0 if self.W_whole is None else self.W_whole(cells.amax((1, 2), keepdim=True))
        if self.columns:
            # [B, 1, m, (1 + n) C']; from the maximum, contents are learnt sooner (decision 0020).
            cells = torch.cat([cells.amax(dim=1), cells.transpose(1, 2).flatten(2)], dim=-1).unsqueeze(1)
        cells = self.norm(self.W(cells) + pooled) / self.size**0.5
        cells = self.dropout(self.positions(cells))
        return flatten_grid(cells, None if widths is None else _ceil_div(widths, self.network.across))

    def grid(self, length: int) -> tuple[int, int]:
        """n rows and m columns of vectors, for an image `length` pixels wide."""
        rows = 1 if self.columns else _ceil_div(self.height, self.network.down)
        return rows, _ceil_div(length, self.network.across)


class PatchFrontEnd(GridFrontEnd):
    """h_ij = W x_ij + b + p_ij, x_ij the pixels of a square (Dosovitskiy et al. 2021); images are padded with 0"""

    def __init__(self, *, size: int, height: int, colours: int, patch: int, dropout: float) -> None:
        super().__init__()
        self.size = size
        self.height = height
        self.patch = patch
        self.W = unit_norm_linear(colours * patch**2, size)
        self.positions = SinusoidalPositions2D(size=size)
        self.dropout = Dropout(dropout)

    def forward(self, source: Sequence) -> Sequence:
        """Values [B, S, H C] → [B, n m, E]."""
        pixels, widths, patch = _pixels(source, self.height), _widths(source), self.patch
        _, _, H, W = pixels.shape
        padded = functional.pad(pixels, (0, -W % patch, 0, -H % patch))
        squares = padded.unfold(2, patch, patch).unfold(3, patch, patch)  # [B, C, n, m, patch, patch]
        cells = self.dropout(self.positions(self.W(squares.permute(0, 2, 3, 1, 4, 5).flatten(3))))
        return flatten_grid(cells, None if widths is None else _ceil_div(widths, patch))

    def grid(self, length: int) -> tuple[int, int]:
        """n rows and m columns of squares, for an image `length` pixels wide."""
        return _ceil_div(self.height, self.patch), _ceil_div(length, self.patch)


class FrameFrontEnd(FrontEnd):
    """h_t = norm(W_what max_ij c_ij + W_where [c_11; ..; c_nm] + b), c_ij the cells of frame t"""

    def __init__(
        self, *, size: int, height: int, width: int, colours: int, channels: list[int], blocks: int, dropout: float
    ) -> None:
        super().__init__()
        self.size = size
        self.frame = (height, width, colours)
        self.network = ResNet(inputs=colours, channels=channels, blocks=blocks)
        cells = _ceil_div(height, self.network.down) * _ceil_div(width, self.network.across)
        self.W_what = unit_norm_linear(self.network.size, size)
        self.W_where = unit_norm_linear(cells * self.network.size, size)
        self.norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    def forward(self, source: Sequence) -> Sequence:
        """Values [B, T, H W C] → [B, T, E]; the network runs on real frames only."""
        real = source.values[source.mask]  # [all frames, H W C]
        frames = _standardised(real.unsqueeze(1), torch.ones_like(real[:, :1], dtype=torch.bool))
        pixels = frames.reshape(-1, *self.frame).permute(0, 3, 1, 2)
        cells = self.network(pixels, None).permute(0, 2, 3, 1).flatten(1, 2)  # [all frames, n m, C']
        vectors = self.norm(self.W_what(cells.amax(1)) + self.W_where(cells.flatten(1))) / self.size**0.5
        values = vectors.new_zeros(*source.mask.shape, self.size)
        values[source.mask] = vectors
        return Sequence(self.dropout(values), source.mask)

    def names(self, length: int) -> list[str]:
        """The numbers of the frames from 1."""
        return [str(number) for number in range(1, length + 1)]


def flatten_grid(cells: Tensor, widths: Tensor | None) -> Sequence:
    """Cells [B, n, m, E], row by row, as h_11 .. h_1m, h_21 .. h_nm [B, n m, E]; padding goes to the end.

    `widths` are the real columns of each image [B]; None: all are real.
    """
    B, n, m, E = cells.shape
    flat = cells.reshape(B, n * m, E)
    if widths is None:
        return Sequence(flat, torch.ones(B, n * m, dtype=torch.bool, device=cells.device))
    widths = widths.unsqueeze(1)
    steps = torch.arange(n * m, device=cells.device)
    mask = steps < n * widths
    index = torch.where(mask, steps // widths * m + steps % widths, 0)  # of each real cell in the flat grid
    values = flat.gather(1, index.unsqueeze(2).expand(-1, -1, E))
    return Sequence(values.masked_fill(~mask.unsqueeze(2), 0.0), mask)


def _pixels(source: Sequence, height: int) -> Tensor:
    """[B, S, H C] as standardised images [B, C, H, S]; padding is 0."""
    values = _standardised(source.values, source.mask)
    return values.reshape(*values.shape[:2], height, -1).permute(0, 3, 2, 1)


def _shades(source: Sequence, height: int, down: int, across: int) -> Tensor:
    """The mean x of the real pixels of each cell of down x across pixels, not standardised, and -x [B, n, m, 2 C].

    Cells of padding get -1, the least value, so that they never win a maximum.
    """
    values, (rows, steps) = source.values, source.mask.shape
    real = source.mask.to(values.dtype)
    pixels = (values * real.unsqueeze(2)).reshape(rows, steps, height, -1).permute(0, 3, 2, 1)  # [B, C, H, S]
    counted = real.view(rows, 1, 1, steps).expand(-1, 1, height, -1)
    sums, numbers = (
        functional.avg_pool2d(plane, (down, across), ceil_mode=True, divisor_override=1) for plane in (pixels, counted)
    )
    means = sums / numbers.clamp_min(1.0)
    return torch.cat([means, -means], dim=1).masked_fill(numbers == 0.0, -1.0).permute(0, 2, 3, 1)


def _standardised(values: Tensor, mask: Tensor) -> Tensor:
    """(x - mean) / √var over all real pixels of each image [B, S, D]; padding is 0.

    So the background is near 0, like padding. With a background of 1 the network first sees little but its edge:
    shapes and digits took two to four times the updates.
    """
    real = mask.unsqueeze(2)
    number = real.sum((1, 2), keepdim=True) * values.size(2)
    centred = (values - (values * real).sum((1, 2), keepdim=True) / number) * real
    var = centred.square().sum((1, 2), keepdim=True) / number
    return centred / var.sqrt().clamp_min(MIN_DEVIATION)


def _widths(source: Sequence) -> Tensor | None:
    """Real columns of pixels of each image [B]; None: all are real."""
    return None if bool(source.mask.all()) else source.lengths


def _ceil_div(number: IntOrTensor, by: int) -> IntOrTensor:
    """⌈number / by⌉"""
    return -(-number // by)
