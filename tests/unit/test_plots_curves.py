"""The learning curves: drawn from any rows, the best marked."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from antiphon.plots.curves import draw_curves


def _rows(count: int, best: int | None) -> list[dict[str, float]]:
    return [
        {"update": 100.0 * i, "train_loss": 3.0 / i, "dev_loss": 3.5 / i, "per": 60.0 / i, "learning_rate": 1e-3 / i,
         "tokens_per_second": 20000.0, "best": float(i == best)}
        for i in range(1, count + 1)
    ]  # fmt: skip


def _orange(path: Path) -> np.ndarray:
    """Columns of the picture that hold the colour of the best mark."""
    pixels = np.rint(np.asarray(imread(path))[:, :, :3] * 255)
    return np.nonzero((pixels == (0xD9, 0x62, 0x2B)).all(axis=2).any(axis=0))[0]


def test_the_best_is_marked_where_it_is(tmp_path: Path) -> None:
    draw_curves(_rows(10, best=None), "per", tmp_path / "none.png")
    assert _orange(tmp_path / "none.png").size == 0
    places = []
    for best in (3, 8):
        draw_curves(_rows(10, best=best), "per", tmp_path / "best.png")
        places.append(_orange(tmp_path / "best.png").min())  # in the first panel
    assert places[0] < places[1]


@pytest.mark.parametrize(("count", "metric"), [(0, "per"), (1, "loss"), (50, "never_measured"), (50, "per")])
def test_any_number_of_rows(tmp_path: Path, metric: str, count: int) -> None:
    draw_curves(_rows(count, best=1), metric, tmp_path / "results.png")
    assert (tmp_path / "results.png").stat().st_size > 5000


def test_gaps_are_drawn_as_gaps(tmp_path: Path) -> None:
    rows = _rows(5, best=2)
    rows[1] |= {"dev_loss": math.nan, "per": math.inf, "tokens_per_second": math.nan}
    del rows[3]["train_loss"]
    draw_curves(rows, "per", tmp_path / "results.svg")
    draw_curves(rows, "per", tmp_path / "again.svg")
    assert "NaN" not in (tmp_path / "results.svg").read_text().replace("nan", "NaN")
    assert (tmp_path / "results.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
