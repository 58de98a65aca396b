"""A residual network of convolutions over pictures, which padding does not change."""
# B pictures, C channels, H rows, W columns

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["ChannelNorm", "ResidualBlock", "ResidualCells", "convolution"]


class ChannelNorm(nn.LayerNorm):
    """relu of layer norm over the channels of each cell [B, C, H, W]: no other cell and no other picture has a say

    What lies behind a picture is 0 again, so that the next convolution sees the same as in a batch of one.
    """

    def forward(self, cells: Tensor, real: Tensor | None = None) -> Tensor:
        normed = super().forward(cells.permute(0, 2, 3, 1))  # [B, H, W, C]
        if real is not None:
            normed.mul_(real)  # in place: nothing that the gradient needs is lost, and memory is what takes the time
        return normed.relu_().permute(0, 3, 1, 2)


class ResidualBlock(nn.Module):
    """x + W_2 * relu(norm(W_1 * relu(norm(x)))), two convolutions of 3 x 3 (He et al. 2016)"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1, self.convolution1 = ChannelNorm(channels), convolution(channels, channels)
        self.norm2, self.convolution2 = ChannelNorm(channels), convolution(channels, channels)

    def forward(self, cells: Tensor, real: Tensor | None) -> Tensor:
        inner = self.convolution1(self.norm1(cells, real))
        outer: Tensor = self.convolution2(self.norm2(inner, real))
        return cells + outer


class ResidualCells(nn.Module):
    """Stages; each is a convolution that halves height and width (rounded up), blocks, and a norm"""

    def __init__(self, *, inputs: int, channels: list[int], blocks: int) -> None:
        super().__init__()
        before = [inputs, *channels[:-1]]
        self.halves = nn.ModuleList(convolution(i, o, stride=2) for i, o in zip(before, channels, strict=True))
        self.blocks = nn.ModuleList(nn.ModuleList(ResidualBlock(size) for _ in range(blocks)) for size in channels)
        self.norms = nn.ModuleList(ChannelNorm(size) for size in channels)
        self.size, self.shrinks = channels[-1], 2 ** len(channels)

    def forward(self, pixels: Tensor, widths: Tensor | None) -> Tensor:
        """Cells [B, C', H', W'] of pixels [B, C, H, W] that are 0 behind each picture's width; None: all have W."""
        # The layout in which the channels of a cell lie side by side: a seventh faster, and the norm needs no copy.
        cells = pixels.contiguous(memory_format=torch.channels_last)
        for half, blocks, norm in zip(self.halves, self.blocks, self.norms, strict=True):
            cells, widths = half(cells), None if widths is None else (widths + 1) // 2
            real = None if widths is None else _real(widths, cells)
            for block in blocks:  # type: ignore[attr-defined]
                cells = block(cells, real)
            cells = norm(cells, real)
        return cells


def _real(widths: Tensor, cells: Tensor) -> Tensor:
    """1 where a column is of the picture, 0 behind it [B, 1, W, 1]."""
    columns = torch.arange(cells.size(3), device=cells.device)
    return (columns < widths.unsqueeze(1))[:, None, :, None].to(cells.dtype)


def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """3 x 3, without a bias: the norm behind it has one."""
    made = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(made.weight, nonlinearity="relu")
    return made
