"""Learning curves: loss, metric, learning rate and speed against the number of updates."""

from __future__ import annotations

import math
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from antiphon.plots.style import ACCENT, INK, QUIET, font, metric_label, save_figure

__all__ = ["draw_curves"]

_TRAIN = "#8aa0b4"
_BEST = "#d9622b"
_PLACES = {"left": 0.06, "right": 0.99, "bottom": 0.08, "top": 0.95, "wspace": 0.17, "hspace": 0.38}


def draw_curves(rows: list[dict[str, float]], metric: str, path: Path) -> None:
    """Write four panels from the rows of metrics.csv; the best evaluation is marked, a missing value is a gap."""
    figure = Figure(figsize=(9.6, 5.6), facecolor="white")
    losses, metrics, rates, speeds = figure.subplots(2, 2, gridspec_kw=_PLACES).flat
    chosen = _metric_column(rows, metric)
    _plot(losses, rows, "train_loss", _TRAIN, "train")
    _plot(losses, rows, "dev_loss", ACCENT, "dev")
    _plot(metrics, rows, chosen, ACCENT, "")
    _plot(rates, rows, "learning_rate", ACCENT, "")
    _plot(speeds, rows, "tokens_per_second", ACCENT, "")
    best = max((row for row in rows if row.get("best")), key=lambda row: row["update"], default=None)
    if best is not None:
        _mark_best(losses, best, "dev_loss", described=False)
        _mark_best(metrics, best, chosen, described=True)
    titles = ["loss (nats per token)", f"dev {metric_label(chosen)}", "learning rate", "target tokens per second"]
    for axes, title in zip((losses, metrics, rates, speeds), titles, strict=True):
        _style_axes(axes, title, empty=not rows)
    if rows:
        losses.legend(frameon=False, prop=font(8.5), labelcolor=INK, loc="upper right")
    _start_at_zero(rates, rows, "learning_rate")
    _start_at_zero(speeds, rows, "tokens_per_second")
    speeds.yaxis.set_major_formatter(EngFormatter(sep=""))
    save_figure(figure, path)


def _metric_column(rows: list[dict[str, float]], metric: str) -> str:
    """The metric, or perplexity if the metric is the loss, which has a panel of its own."""
    if metric in ("loss", "dev_loss"):
        return "perplexity" if any("perplexity" in row for row in rows) else "dev_loss"
    return metric


def _value(row: dict[str, float], column: str) -> float:
    value = row.get(column, math.nan)
    return value if math.isfinite(value) else math.nan


def _plot(axes: Axes, rows: list[dict[str, float]], column: str, colour: str, name: str) -> None:
    updates, values = [row["update"] for row in rows], [_value(row, column) for row in rows]
    marker = "o" if len(rows) <= 40 else ""
    axes.plot(updates, values, color=colour, linewidth=1.6, marker=marker, markersize=3, label=name)


def _start_at_zero(axes: Axes, rows: list[dict[str, float]], column: str) -> None:
    """Scale the axis so that half a value is half as high."""
    highest = max((value for row in rows if not math.isnan(value := _value(row, column))), default=0.0)
    axes.set_ylim(0.0, 1.1 * highest or 1.0)


def _mark_best(axes: Axes, best: dict[str, float], column: str, *, described: bool) -> None:
    value = _value(best, column)
    if math.isnan(value):
        return
    axes.axvline(best["update"], color=_BEST, linewidth=0.8, linestyle=(0, (2, 3)), zorder=1)
    axes.plot([best["update"]], [value], "o", color=_BEST, markersize=6, zorder=5)
    if described:
        text = f"best {value:.4g} at {best['update']:.0f}"
        axes.set_title(text, loc="right", color=_BEST, fontproperties=font(9))


def _style_axes(axes: Axes, title: str, *, empty: bool) -> None:
    axes.set_title(title, loc="left", color=INK, fontproperties=font(10, title))
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c6ced6")
    axes.grid(axis="y", color="#edf0f3", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=8, length=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlim(left=0)
    axes.set_xlabel("update", color=QUIET, fontproperties=font(8.5))
    if empty:
        axes.set_xlim(0, 1)
        axes.text(0.5, 0.5, "no evaluation yet", transform=axes.transAxes, ha="center", color=QUIET)
