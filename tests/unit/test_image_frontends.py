"""Fronts for pictures and videos: formulas, padding, names, gradients."""
# B rows, S columns of pixels, H height, C colours, E size

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from antiphon.config.networks import FrontEndConfig
from antiphon.config.sources import CellsConfig, FrameCellsConfig, FramesConfig, ImageConfig, PatchesConfig
from antiphon.models.build_frontends import SourceSpec, build_front_end
from antiphon.models.frontends.image_frontend import (
    FrameFrontEnd,
    MaskedGroupNorm,
    PatchFrontEnd,
    ResidualBlock,
    ResNet,
    ResNetFrontEnd,
    _shades,
    flatten_grid,
)
from antiphon.models.layers.positions import SinusoidalPositions, SinusoidalPositions2D
from antiphon.sequence import Sequence

LINES = ImageConfig(height=10, width=None)
FrontEnd = ResNetFrontEnd | PatchFrontEnd | FrameFrontEnd


def built(config: FrontEndConfig, reader: ImageConfig | FramesConfig, size: int) -> Any:  # noqa: ANN401 (any front end)
    """Build a front end from numbers, as build_frontends.py does; the width of a vector is not used."""
    return build_front_end(SourceSpec(reader, size=0), config, size)


def cells(
    *,
    columns: bool = False,
    reader: ImageConfig = LINES,
    blocks: int = 1,
    size: int = 6,
    wide: int = 0,
    whole: bool = False,
) -> ResNetFrontEnd:
    config = CellsConfig(channels=[4, 8], blocks=blocks, columns=columns, dropout=0.0, wide=wide, whole=whole)
    return built(config, reader, size)


def patches(patch: int = 4, size: int = 6) -> PatchFrontEnd:
    return built(PatchesConfig(patch=patch, dropout=0.0), LINES, size)


def frame_cells() -> FrameFrontEnd:
    config = FrameCellsConfig(channels=[4, 8], blocks=1, dropout=0.0)
    return built(config, FramesConfig(height=5, width=6), 6)


FRONT_ENDS: dict[str, tuple[Callable[[], FrontEnd], int]] = {  # and the width of what they read
    "cells": (cells, 30),
    "columns": (lambda: cells(columns=True), 30),
    "wide": (lambda: cells(columns=True, wide=1), 30),
    "whole": (lambda: cells(whole=True), 30),
    "patches": (patches, 30),
    "frame-cells": (frame_cells, 90),
}
every_front = pytest.mark.parametrize("name", list(FRONT_ENDS))
PICTURES = pytest.mark.parametrize("name", ["cells", "columns", "wide", "whole", "patches"])


def standardised(picture: torch.Tensor) -> torch.Tensor:
    return (picture - picture.mean()) / picture.std(correction=0)


def batch(lengths: list[int], width: int, seed: int = 1, padding: float = 0.0) -> Sequence:
    """Rows of random values; what is padding is set to `padding`."""
    values = torch.randn(len(lengths), max(lengths), width, generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return Sequence(values.masked_fill(~mask.unsqueeze(2), padding), mask)


@every_front
def test_alone_as_in_a_batch_whatever_the_padding(name: str) -> None:
    torch.manual_seed(1)
    make, width = FRONT_ENDS[name]
    front = make()
    lengths = [9, 17, 1, 12]
    read = front(batch(lengths, width, padding=7.0))
    for row, length in enumerate(lengths):
        source = batch(lengths, width)
        alone = front(Sequence(source.values[row : row + 1, :length], source.mask[row : row + 1, :length]))
        assert alone.mask.all()
        states = alone.values.size(1)
        assert read.mask[row].tolist() == [True] * states + [False] * (read.mask.size(1) - states)
        torch.testing.assert_close(read.values[row, :states], alone.values[0])


@every_front
def test_there_is_a_name_for_every_vector(name: str) -> None:
    make, width = FRONT_ENDS[name]
    front = make()
    for length in (1, 4, 7, 8, 9):
        vectors = front(batch([length], width)).values
        assert vectors.shape == (1, len(front.names(length)), front.size)
        assert len(set(front.names(length))) == vectors.size(1)
        grid = front.grid(length)
        assert grid is None or grid[0] * grid[1] == vectors.size(1)


def test_names_and_grids() -> None:
    front = cells()  # 10 rows of pixels become 5, then 3
    assert front.grid(8) == (3, 2)
    assert front.names(8) == ["1,1", "1,2", "2,1", "2,2", "3,1", "3,2"]
    assert (cells(columns=True).grid(9), cells(columns=True).names(9)) == ((1, 3), ["1", "2", "3"])
    assert (patches().grid(5), patches().names(5)[-1]) == ((3, 2), "3,2")
    assert (frame_cells().grid(3), frame_cells().names(3)) == (None, ["1", "2", "3"])


@every_front
def test_gradients_reach_every_parameter(name: str) -> None:
    torch.manual_seed(1)
    make, width = FRONT_ENDS[name]
    front = make()
    read = front(batch([9, 17], width))
    (read.values * torch.randn_like(read.values))[read.mask].sum().backward()
    assert [key for key, weight in front.named_parameters() if weight.grad is None or not weight.grad.any()] == []


@every_front
def test_vectors_are_about_as_long_as_those_of_tokens(name: str) -> None:
    torch.manual_seed(1)
    reader, size, dropout = ImageConfig(height=32, width=32), 64, 0.0
    fronts: dict[str, FrontEnd] = {
        "cells": built(CellsConfig(dropout=dropout), reader, size),
        "columns": built(CellsConfig(columns=True, dropout=dropout), reader, size),
        "wide": built(CellsConfig(columns=True, wide=1, dropout=dropout), reader, size),
        "whole": built(CellsConfig(whole=True, dropout=dropout), reader, size),
        "patches": built(PatchesConfig(patch=8, dropout=dropout), reader, size),
        "frame-cells": built(FrameCellsConfig(dropout=dropout), FramesConfig(height=32, width=32), size),
    }
    read = fronts[name](batch([32], 32 * 32 * 3 if name == "frame-cells" else 32 * 3))
    assert 0.2 < float(read.values.detach().norm(dim=2).mean()) < 2.0


@every_front
def test_dropout_is_for_training(name: str) -> None:
    make, width = FRONT_ENDS[name]
    front, source = make(), batch([8], width)
    front.dropout.p = 0.5
    assert (front(source).values == 0).any()
    assert (front.eval()(source).values != 0).all()


def test_patches_by_a_loop() -> None:
    torch.manual_seed(1)
    front, source = patches(patch=4), batch([7], 30)
    picture = torch.zeros(12, 8, 3)  # filled up with 0
    picture[:10, :7] = standardised(source.values[0]).reshape(7, 10, 3).transpose(0, 1)
    table = SinusoidalPositions(size=4).table(3).float()  # half of 6, up to a whole pair
    expected = []
    for i in range(3):
        for j in range(2):
            square = picture[4 * i : 4 * i + 4, 4 * j : 4 * j + 4]
            pixels = torch.stack([square[y, x, c] for c in range(3) for y in range(4) for x in range(4)])
            place = torch.cat([table[i], table[j]])[:6] / 6**0.5
            expected.append(front.W.weight @ pixels + front.W.bias + place)
    torch.testing.assert_close(front(source).values[0], torch.stack(expected))


def test_a_residual_block_by_its_formula() -> None:
    torch.manual_seed(1)
    block, x = ResidualBlock(3), torch.randn(1, 3, 4, 5)
    for norm in (block.norm1, block.norm2):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)

    def bent(values: Tensor, norm: MaskedGroupNorm) -> Tensor:
        mean, var = values.mean(), values.var(correction=0)  # of the one picture
        normed = (values - mean) / (var + norm.eps).sqrt()
        return (normed * norm.weight[:, None, None] + norm.bias[:, None, None]).clamp(min=0)

    def convolved(values: Tensor, kernel: Tensor) -> Tensor:
        wide = nn.functional.pad(values, (1, 1, 1, 1))
        return torch.stack(
            [(wide[:, :, i : i + 3, j : j + 3] * k).sum() for k in kernel for i in range(4) for j in range(5)]
        ).view(1, 3, 4, 5)

    inner = convolved(bent(x, block.norm1), block.convolution1.weight)
    expected = x + convolved(bent(inner, block.norm2), block.convolution2.weight)
    torch.testing.assert_close(block(x, None), expected)


def test_each_stage_halves_and_blocks_see_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without norms, through which every cell has its share in all."""
    torch.manual_seed(1)
    monkeypatch.setattr(MaskedGroupNorm, "forward", lambda _, cells, _real: cells)
    for blocks, reach in ((0, 3), (1, 11)):
        network = ResNet(inputs=1, channels=[4], blocks=blocks)
        pixels = torch.randn(1, 1, 41, 41, requires_grad=True)
        found = network(pixels, None)
        assert found.shape == (1, 4, 21, 21)
        found[0, :, 10, 10].sum().backward()
        assert pixels.grad is not None
        seen = pixels.grad[0, 0].nonzero()
        assert (seen.max(0).values - seen.min(0).values + 1).tolist() == [reach, reach]
    deep = ResNet(inputs=3, channels=[2, 4, 6], blocks=1)
    assert deep(torch.randn(2, 3, 40, 21), None).shape == (2, 6, 5, 3)
    assert (deep.size, deep.down, deep.across) == (6, 8, 8)
    wide = ResNet(inputs=3, channels=[2, 4, 6], blocks=1, wide=2)
    assert wide(torch.randn(2, 3, 40, 21), None).shape == (2, 6, 5, 11)
    assert (wide.down, wide.across) == (8, 2)


def test_columns_stack_the_cells_of_a_column() -> None:
    torch.manual_seed(1)
    front, source = cells(columns=True), batch([8], 30)
    found = front.network(standardised(source.values).reshape(1, 8, 10, 3).permute(0, 3, 2, 1), None)  # [1, 8, 3, 2]
    most = found[0].amax(dim=1)  # [8, 2]
    stacked = torch.stack([torch.cat([most[:, j], *(found[0, :, i, j] for i in range(3))]) for j in range(2)])
    expected = front.positions(front.norm(front.W(stacked))[None, None] / front.size**0.5)[0, 0]
    torch.testing.assert_close(front(source).values[0], expected)


def test_each_cell_is_told_of_the_whole_picture() -> None:
    torch.manual_seed(1)
    front, source = cells(whole=True), batch([8], 30)
    found = front.network(standardised(source.values).reshape(1, 8, 10, 3).permute(0, 3, 2, 1), None)[0]  # [8, 3, 2]
    pixels = source.values[0].reshape(8, 10, 3)
    squares = [pixels[4 * j : 4 * j + 4, 4 * i : 4 * i + 4].mean((0, 1)) for i in range(3) for j in range(2)]
    places = [(i, j) for i in range(3) for j in range(2)]
    told = [torch.cat([found[:, i, j], x, -x]) for (i, j), x in zip(places, squares, strict=True)]
    assert front.W_whole is not None
    made = front.norm(front.W(told[2]) + front.W_whole(torch.stack(told).amax(dim=0))) / front.size**0.5
    expected = front.positions(made.expand(1, 3, 2, -1))[0, 1, 0]
    torch.testing.assert_close(front(source).values[0, 2], expected)  # row 1, column 0 of 3 x 2


def test_shades_are_of_real_pixels_only() -> None:
    """Three columns of pixels make one cell of 4 x 4 and a rest; behind them is nothing. 10 rows: the last has 2."""
    values = torch.arange(30.0).view(1, 3, 10).expand(2, -1, -1)  # column s, row h: 10 s + h
    padded = torch.cat([values, torch.full((2, 5, 10), 99.0)], dim=1)
    mask = torch.arange(8) < torch.tensor([[3], [8]])
    found = _shades(Sequence(padded, mask), 10, down=4, across=4)
    assert found.shape == (2, 3, 2, 2)
    assert found[0, :, 0].tolist() == [[11.5, -11.5], [15.5, -15.5], [18.5, -18.5]]
    assert found[0, :, 1].tolist() == [[-1.0, -1.0]] * 3
    assert found[1, :, 1].tolist() == [[99.0, -99.0]] * 3


def test_grey_on_white_is_not_black_on_white() -> None:
    """As cells; a line of print is the same however pale it is."""
    torch.manual_seed(1)
    black = torch.ones(1, 8, 30)
    black[:, 2:5] = -1.0
    grey = black.clamp_min(0.0)
    for columns in (False, True):
        front = cells(columns=columns)
        seen = [front(Sequence(one, torch.ones(1, 8, dtype=torch.bool))).values for one in (black, grey)]
        assert torch.allclose(*seen, atol=1e-5) == columns


def test_a_frame_is_made_of_all_its_cells() -> None:
    torch.manual_seed(1)
    front, source = frame_cells(), batch([3], 90)
    frame = standardised(source.values[0, 1]).reshape(1, 5, 6, 3).permute(0, 3, 1, 2)
    cells = front.network(frame, None)[0]  # [C', n, m]
    places = [cells[:, i, j] for i in range(cells.size(1)) for j in range(cells.size(2))]
    made = front.W_what(torch.stack(places).amax(dim=0)) + front.W_where(torch.cat(places))
    torch.testing.assert_close(front(source).values[0, 1], front.norm(made) / front.size**0.5)


def test_positions_tell_row_and_column() -> None:
    added = SinusoidalPositions2D(size=8)(torch.zeros(1, 3, 5, 8))[0]
    assert (added[:, :, :4] == added[:, :1, :4]).all()  # the first half is the row's
    assert (added[:, :, 4:] == added[:1, :, 4:]).all()
    assert len({tuple(place.tolist()) for place in added.flatten(0, 1)}) == 15
    assert added.norm(dim=2) == pytest.approx(torch.full((3, 5), 0.5**0.5), abs=1e-6)
    for size in (1, 5, 6, 7):
        assert SinusoidalPositions2D(size=size)(torch.zeros(1, 3, 5, size)).shape == (1, 3, 5, size)


def test_rows_of_unequal_width_end_with_their_padding() -> None:
    grid = torch.arange(12.0).view(2, 2, 3, 1)
    read = flatten_grid(grid, torch.tensor([2, 3]))
    assert read.values[0, :, 0].tolist() == [0, 1, 3, 4, 0, 0]
    assert read.mask[0].tolist() == [True] * 4 + [False] * 2
    assert read.values[1, :, 0].tolist() == [6, 7, 8, 9, 10, 11]
    assert read.mask[1].all()


@PICTURES
def test_a_picture_of_one_colour_and_one_of_three(name: str) -> None:
    grey = ImageConfig(height=10, width=None, colour=False)
    make = {
        "cells": lambda: cells(reader=grey),
        "columns": lambda: cells(reader=grey, columns=True),
        "wide": lambda: cells(reader=grey, columns=True, wide=1),
        "whole": lambda: cells(reader=grey, whole=True),
        "patches": lambda: built(PatchesConfig(patch=4), grey, 6),
    }[name]
    assert make()(batch([8], 10)).values.size(2) == 6


def test_light_and_contrast_make_no_difference() -> None:
    """A picture, and the same one brighter and paler; one of a single shade divides nothing by 0."""
    torch.manual_seed(1)
    front, source = cells(columns=True), batch([8], 30)
    paler = Sequence(0.3 * source.values + 0.5, source.mask)
    torch.testing.assert_close(front(paler).values, front(source).values)
    blank = Sequence(torch.full_like(source.values, 0.7), source.mask)
    assert front(blank).values.isfinite().all()
