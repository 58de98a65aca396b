"""Batches: like lengths together, within a size and a budget, and nothing lost."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.data.batches import batch_by_length

Lengths = list[tuple[int, int]]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 60)), min_size=1, max_size=60),
    st.integers(1, 20),
    st.integers(1, 6),
    st.one_of(st.none(), st.integers(1, 500)),
    st.integers(1, 4),
)
def test_every_row_once_and_no_batch_too_large(
    lengths: Lengths, size: int, beam: int, budget: int | None, min_batches: int
) -> None:
    batches = batch_by_length(lengths, size, beam=beam, budget=budget, min_batches=min_batches)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= min(size, math.ceil(len(lengths) / min_batches))
        assert len({lengths[row][0] for row in batch}) == 1
        longest = max(lengths[row][1] for row in batch)
        assert budget is None or len(batch) == 1 or len(batch) * beam * longest <= budget


def test_the_longest_come_first_and_short_ones_fill_larger_batches() -> None:
    lengths = [(0, length) for length in (2, 8, 2, 4, 8, 4, 2, 4, 2)]
    assert batch_by_length(lengths, 100, beam=2, budget=32) == [[1, 4], [3, 5, 7, 0], [2, 6, 8]]
    assert batch_by_length(lengths, 2) == [[1, 4], [3, 5], [7, 0], [2, 6], [8]]


@pytest.mark.parametrize(
    ("rows", "min_batches", "sizes"),
    [(64, 3, [22, 22, 20]), (5, 2, [3, 2]), (5, 3, [2, 2, 1]), (2, 3, [1, 1]), (1, 3, [1])],
)
def test_rows_are_dealt_out_evenly(rows: int, min_batches: int, sizes: list[int]) -> None:
    """No row is left over for a batch of one where it would fit another."""
    assert [len(batch) for batch in batch_by_length([(0, 5)] * rows, 100, min_batches=min_batches)] == sizes
