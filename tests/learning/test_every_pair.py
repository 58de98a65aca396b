"""Both orders with each score learn to copy, reverse and sort, from a drawn and printed seed."""

from __future__ import annotations

import random

import pytest
from parts import DECODERS, GRU, attending
from tasks import ENOUGH, learnt

from antiphon.models.build import SCORES


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("decoder", ["bahdanau", "luong"])
def test_it_learns(decoder: str, score: str) -> None:
    assert learnt(attending(GRU, DECODERS[decoder], score=score)) >= ENOUGH


def test_what_was_attended_to_is_fed_back() -> None:
    """Input feeding does not depend on the score, so one score is drawn."""
    score = random.choice([*SCORES])
    print(score)
    assert learnt(attending(GRU, DECODERS["luong, fed"], score=score)) >= ENOUGH
