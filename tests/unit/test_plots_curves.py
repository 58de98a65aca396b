"""The learning curves: drawn from the log and any evaluations, the best marked."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from antiphon.plots import curves
from antiphon.plots.curves import draw_curves


def _log(count: int) -> list[dict[str, float]]:
    return [
        {"update": 20.0 * i, "loss": 3.0 / i, "learning_rate": 1e-3 / i, "tokens_per_second": 20000.0}
        for i in range(1, count + 1)
    ]


def _rows(count: int, best: int | None) -> list[dict[str, float]]:
    return [
        {"update": 100.0 * i, "train_loss": 3.0 / i, "dev_loss": 3.5 / i, "per": 60.0 / i, "learning_rate": 1e-3 / i,
         "tokens_per_second": 20000.0, "best": float(i == best)}
        for i in range(1, count + 1)
    ]  # fmt: skip


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """What would be saved."""
    drawn: list[Figure] = []
    monkeypatch.setattr(curves, "save_figure", lambda figure, _: drawn.append(figure))
    return drawn


def _orange(path: Path) -> np.ndarray:
    """Columns of the picture that hold the colour of the best mark."""
    pixels = np.rint(np.asarray(imread(path))[:, :, :3] * 255)
    return np.nonzero((pixels == (0xD9, 0x62, 0x2B)).all(axis=2).any(axis=0))[0]


def test_the_best_is_marked_where_it_is(tmp_path: Path) -> None:
    draw_curves(_log(50), _rows(10, best=None), "per", tmp_path / "none.png")
    assert _orange(tmp_path / "none.png").size == 0
    places = []
    for best in (3, 8):
        draw_curves(_log(50), _rows(10, best=best), "per", tmp_path / "best.png")
        places.append(_orange(tmp_path / "best.png").min())  # in the first panel
    assert places[0] < places[1]


@pytest.mark.parametrize("updates", [0, 1, 60])
@pytest.mark.parametrize(("count", "metric"), [(0, "per"), (1, "loss"), (50, "never_measured"), (50, "per")])
def test_any_number_of_rows(tmp_path: Path, metric: str, count: int, updates: int) -> None:
    draw_curves(_log(updates), _rows(count, best=1), metric, tmp_path / "results.png", unigram_loss=2.0)
    assert (tmp_path / "results.png").stat().st_size > 5000


def test_gaps_are_drawn_as_gaps(tmp_path: Path) -> None:
    log, rows = _log(8), _rows(5, best=2)
    rows[1] |= {"dev_loss": math.nan, "per": math.inf}
    log[3] |= {"tokens_per_second": math.nan}
    del log[4]["loss"]
    draw_curves(log, rows, "per", tmp_path / "results.svg")
    draw_curves(log, rows, "per", tmp_path / "again.svg")
    assert "NaN" not in (tmp_path / "results.svg").read_text().replace("nan", "NaN")
    assert (tmp_path / "results.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def test_the_lines_come_from_the_log_and_the_points_from_the_evaluations(figures: list[Figure]) -> None:
    draw_curves(_log(6), _rows(1, best=1), "per", Path("x.png"), unigram_loss=2.5)
    losses, metric, rates, speeds = figures[0].axes
    train, dev, unigram = losses.lines[:3]
    assert list(train.get_ydata()) == [row["loss"] for row in _log(6)]
    assert (list(dev.get_xdata()), list(dev.get_ydata()), dev.get_marker()) == ([100.0], [3.5], "o")
    assert list(unigram.get_ydata()) == [2.5, 2.5]
    assert [len(axes.lines[0].get_xdata()) for axes in (metric, rates, speeds)] == [1, 6, 6]


def test_the_legend_is_above_all_lines(figures: list[Figure]) -> None:
    draw_curves(_log(6), _rows(3, best=1), "per", Path("x.png"), unigram_loss=2.5)
    [losses, *_], renderer = figures[0].axes, FigureCanvasAgg(figures[0]).get_renderer()  # type: ignore[no-untyped-call]
    legend = losses.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["train", "dev", "unigram model"]
    figures[0].draw_without_rendering()
    words = [text.get_window_extent(renderer) for text in legend.get_texts()]
    assert min(box.y0 for box in words) >= losses.get_window_extent(renderer).y1
    [title] = [text for text in losses.findobj(Text) if text.get_text() == "loss (nats per token)"]  # type: ignore[attr-defined]
    assert min(box.x0 for box in words) > title.get_window_extent(renderer).x1


@pytest.mark.parametrize(
    ("values", "metric", "limits"),
    [
        ([20.0, 100.0], "exact_match", (None, 100.0)),
        ([0.0, 0.0, 50.0], "exact_match", (0.0, None)),
        ([60.0], "per", (0.0, 100.0)),
        ([150.0, 100.0], "wer", (None, 152.5)),
        ([100.0, 100.0], "bleu", (None, 100.0)),
        ([100.0, 101.0], "perplexity", (None, 101.05)),
    ],
)
def test_percentages_end_at_a_hundred(
    values: list[float], metric: str, limits: tuple[float | None, float | None], figures: list[Figure]
) -> None:
    rows = [{"update": 10.0 * number, metric: value} for number, value in enumerate(values, start=1)]
    draw_curves([], rows, metric, Path("x.png"))
    found = figures[0].axes[1].get_ylim()
    assert [at for at, limit in zip(found, limits, strict=True) if limit is not None] == pytest.approx(
        [limit for limit in limits if limit is not None]
    )
