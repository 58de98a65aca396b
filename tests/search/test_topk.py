"""stable_topk is sorting by value, then by index."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.search.hypothesis import MIN_COLUMNS, MIN_ROWS, stable_topk


def sorted_out(scores: torch.Tensor, count: int) -> tuple[list[list[float]], list[list[int]]]:
    """By value, then by index; NaN counts as -inf."""
    known = scores.nan_to_num(nan=float("-inf"), posinf=float("inf"), neginf=float("-inf"))
    indices = [sorted(range(len(row)), key=lambda n: (-float(row[n]), n))[:count] for row in known]
    return [[float(row[n]) for n in order] for row, order in zip(known, indices, strict=True)], indices


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 1300), st.integers(1, 12), st.booleans())
def test_as_by_sorting(seed: int, size: int, count: int, ties: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, size, generator=generator)
    if ties:
        scores = (scores * 2).round()
    count = min(count, size)
    values, indices = stable_topk(scores, count)
    expected, order = sorted_out(scores, count)
    assert values.tolist() == expected
    assert indices.tolist() == order


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 130), st.integers(1, 12), st.booleans())
def test_many_long_rows_as_by_sorting(seed: int, more: int, count: int, ties: bool) -> None:
    """So many and so long that they are searched in two steps."""
    scores = torch.randn(MIN_ROWS + 1, MIN_COLUMNS + more, generator=torch.Generator().manual_seed(seed))
    if ties:
        scores = (scores * 4).round()
    scores[1, :] = float("-inf")
    scores[1, MIN_COLUMNS // 2] = 1.0
    values, indices = stable_topk(scores, count)
    rows = [0, 2, MIN_ROWS]
    expected, order = sorted_out(scores[rows], count)
    assert values[rows].tolist() == expected
    assert indices[rows].tolist() == order
    assert (float(values[1, 0]), int(indices[1, 0])) == (1.0, MIN_COLUMNS // 2)


@pytest.mark.parametrize("place", [0, 500, 1030])
def test_what_is_not_a_number_is_never_among_them(place: int) -> None:
    scores = torch.arange(2 * 1031, dtype=torch.float32).view(2, 1031)
    scores[0, place] = float("nan")
    values, indices = stable_topk(scores, 3)
    expected, order = sorted_out(scores, 3)
    assert (values.tolist(), indices.tolist()) == (expected, order)
