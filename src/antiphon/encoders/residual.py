"""A residual network of convolutions over pictures, which padding does not change."""
# B pictures, C channels, H rows, W columns

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["PictureNorm", "ResidualBlock", "ResidualCells", "convolution"]


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
