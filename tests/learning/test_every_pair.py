"""Each decoder with each score learns to copy, reverse and sort, from a drawn and printed seed."""

from __future__ import annotations

import pytest
from parts import DECODERS, GRU, attending
from tasks import ENOUGH, learnt

from antiphon.build import SCORES


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("decoder", DECODERS)
def test_it_learns(decoder: str, score: str) -> None:
    assert learnt(attending(GRU, DECODERS[decoder], score=score)) >= ENOUGH
