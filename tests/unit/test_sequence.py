"""Padding and masks."""

from __future__ import annotations

import numpy as np

from antiphon.data.batches import source_batch
from antiphon.sequence import Sequence


def test_rows_are_padded_at_the_end_and_true_is_real() -> None:
    sequence = Sequence.of_ids([[5, 6, 7], np.array([8], dtype=np.int32), []], pad=0)
    assert sequence.values.tolist() == [[5, 6, 7], [8, 0, 0], [0, 0, 0]]
    assert sequence.mask.tolist() == [[True, True, True], [True, False, False], [False, False, False]]
    assert sequence.lengths.tolist() == [3, 1, 0]


def test_the_mask_is_made_of_lengths_not_of_values() -> None:
    assert Sequence.of_ids([[0, 0], [4]], pad=0).lengths.tolist() == [2, 1]


def test_a_batch_of_nothing_has_a_shape() -> None:
    assert Sequence.of_ids([], pad=0).values.shape == (0, 1)
    assert Sequence.of_ids([[]], pad=0).values.tolist() == [[0]]


def test_sources_end_with_their_end() -> None:
    assert source_batch([[5, 6], []]).values.tolist() == [[5, 6, 2], [2, 0, 0]]
    assert source_batch([[5, 6], []]).lengths.tolist() == [3, 1]
