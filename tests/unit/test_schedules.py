"""Learning rates on paper."""

from __future__ import annotations

import math

import pytest

from antiphon.config.schema import TrainingConfig
from antiphon.training.schedule import learning_rate


def rates(updates: int = 10, **changes: object) -> list[float]:
    """The rates of all updates of a run, at a highest rate of 1."""
    rate = changes.pop("learning_rate", 1.0)
    config = TrainingConfig.model_validate({"learning_rate": rate, "schedule": {"warmup": 0, **changes}})
    return [learning_rate(config, [], number=number, updates=updates) for number in range(1, updates + 1)]


def test_constant() -> None:
    assert rates(4, kind="constant") == [1.0] * 4
    assert rates(4, kind="constant", learning_rate=0.25) == [0.25] * 4


@pytest.mark.parametrize("schedule", ["constant", "inverse-sqrt", "cosine", "plateau"])
def test_warm_up_is_a_straight_line_to_the_highest(schedule: str) -> None:
    assert rates(8, kind=schedule, warmup=4)[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_inverse_square_root() -> None:
    climbed = rates(16, kind="inverse-sqrt", warmup=4)
    assert climbed[15] == pytest.approx(0.5)  # √(4 / 16)
    assert climbed[8] == pytest.approx(2 / 3)  # √(4 / 9)
    assert rates(4, kind="inverse-sqrt") == pytest.approx([1, math.sqrt(1 / 2), math.sqrt(1 / 3), 0.5])


def test_cosine_falls_from_the_highest_almost_to_zero() -> None:
    after = rates(8, kind="cosine", warmup=4)[4:]
    assert after == pytest.approx([0.5 * (1 + math.cos(math.pi * k / 5)) for k in (1, 2, 3, 4)])
    assert rates(5, kind="cosine")[2] == pytest.approx(0.5)


def test_highest_rate_is_never_passed() -> None:
    for schedule in ("constant", "inverse-sqrt", "cosine", "plateau"):
        for warmup in (0, 1, 3):
            assert max(rates(9, kind=schedule, warmup=warmup)) <= 1.0


def plateau(losses: list[float], metric: str = "loss", patience: int = 2) -> float:
    config = TrainingConfig.model_validate(
        {
            "learning_rate": 1.0,
            "schedule": {"kind": "plateau", "warmup": 0, "factor": 0.5, "patience": patience},
            "metric": metric,
        }
    )
    key = "dev_loss" if metric == "loss" else metric
    history = [{"update": float(number), "dev_loss": 1.0, key: value} for number, value in enumerate(losses, start=1)]
    return learning_rate(config, history, number=len(losses) + 1, updates=1000)


@pytest.mark.parametrize(
    ("losses", "rate"),
    [
        ([], 1.0),
        ([5, 4, 3], 1.0),
        ([5, 6], 1.0),
        ([5, 6, 6], 0.5),
        ([5, 5, 5], 0.5),  # equal is not better
        ([5, 6, 6, 6], 0.5),  # the wait begins anew
        ([5, 6, 6, 6, 6], 0.25),
        ([5, 6, 4, 6, 3, 6], 1.0),  # never twice in a row
        ([5, 6, 6, 4, 6, 6], 0.25),
        ([math.nan, 5, math.nan, math.nan], 0.5),
    ],
)
def test_plateau_halves_after_two_evaluations_without_a_better(losses: list[float], rate: float) -> None:
    assert plateau(losses) == rate


def test_plateau_knows_which_way_is_better_and_its_patience() -> None:
    assert plateau([10, 20, 30], metric="exact_match") == 1.0
    assert plateau([30, 20, 10], metric="exact_match") == 0.5
    assert plateau([10, 20, 30], metric="cer") == 0.5
    assert plateau([5, 6, 6], patience=1) == 0.25
