"""Learning curves: loss, metric, learning rate and speed against the number of updates."""

from __future__ import annotations

import math
import re
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from antiphon.plots.style import ACCENT, INK, QUIET, font, metric_label, save_figure

__all__ = ["draw_curves"]

_TRAIN = "#8aa0b4"
_BEST = "#d9622b"
_PLACES = {"left": 0.06, "right": 0.99, "bottom": 0.08, "top": 0.95, "wspace": 0.17, "hspace": 0.38}
_MANY = 40  # evaluations, which need no points on their line

Rows = list[dict[str, float]]


def draw_curves(log: Rows, evaluations: Rows, metric: str, path: Path, *, unigram_loss: float = math.nan) -> None:
    """Write four panels from the rows of log.jsonl and of metrics.csv; a missing value is a gap.

    The best evaluation is marked, and so is the loss of a unigram model.
    """
    figure = Figure(figsize=(9.6, 5.6), facecolor="white")
    losses, metrics, rates, speeds = figure.subplots(2, 2, gridspec_kw=_PLACES).flat
    chosen = _metric_column(evaluations, metric)
    last = max((row["update"] for row in [*log, *evaluations]), default=0.0)
    _style_axes(losses, "loss (nats per token)", last, empty=not (log or evaluations), missing="update")
    _style_axes(metrics, f"dev {metric_label(chosen)}", last, empty=not evaluations, missing="evaluation")
    _style_axes(rates, "learning rate", last, empty=not log, missing="update")
    _style_axes(speeds, "target tokens per second", last, empty=not log, missing="update")
    _draw_losses(losses, log, evaluations, unigram_loss)
    _plot(metrics, evaluations, chosen, ACCENT, points=True)
    if re.search("%|BLEU|ROUGE|chrF", metric_label(chosen)):
        _end_at_hundred(metrics, evaluations, chosen)
    for axes, column in ((rates, "learning_rate"), (speeds, "tokens_per_second")):
        _plot(axes, log, column, ACCENT)
        _start_at_zero(axes, log, column)
    speeds.yaxis.set_major_formatter(EngFormatter(sep=""))
    best = max((row for row in evaluations if row.get("best")), key=lambda row: row["update"], default=None)
    if best is not None:
        _mark_best(losses, best, "dev_loss", described=False)
        _mark_best(metrics, best, chosen, described=True)
    save_figure(figure, path)


def _draw_losses(axes: Axes, log: Rows, evaluations: Rows, unigram_loss: float) -> None:
    """Draw the loss in training and on dev; the legend is above the axes, where no line is."""
    if not (log or evaluations):
        return
    _plot(axes, log, "loss", _TRAIN, "train")
    _plot(axes, evaluations, "dev_loss", ACCENT, "dev", points=True)
    if math.isfinite(unigram_loss):
        axes.axhline(unigram_loss, color=QUIET, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1, label="unigram model")
    axes.legend(
        frameon=False, prop=font(8.5), labelcolor=INK, loc="lower right", bbox_to_anchor=(1.01, 0.985), ncols=3,
        borderpad=0.2, handlelength=1.6, handletextpad=0.5, columnspacing=1.2,
    )  # fmt: skip


def _metric_column(rows: Rows, metric: str) -> str:
    """The metric, or perplexity if the metric is the loss, which has a panel of its own."""
    if metric in ("loss", "dev_loss"):
        return "perplexity" if any("perplexity" in row for row in rows) else "dev_loss"
    return metric


def _value(row: dict[str, float], column: str) -> float:
    value = row.get(column, math.nan)
    return value if math.isfinite(value) else math.nan


def _plot(axes: Axes, rows: Rows, column: str, colour: str, name: str = "", *, points: bool = False) -> None:
    """Draw a line, with a point for each of a few rows; a single row is always a point."""
    if not rows:
        return
    updates, values = [row["update"] for row in rows], [_value(row, column) for row in rows]
    marker = "o" if len(rows) == 1 or (points and len(rows) <= _MANY) else ""
    axes.plot(updates, values, color=colour, linewidth=1.6, marker=marker, markersize=3.5, label=name, clip_on=False)


def _end_at_hundred(axes: Axes, rows: Rows, column: str) -> None:
    """End the axis of percentages at 0 and 100 if the values do: more words may be wrong than there are."""
    values = [value for row in rows if not math.isnan(value := _value(row, column))]
    low, high = axes.get_ylim()
    if len(values) == 1 and 0.0 <= values[0] <= 100.0:
        low, high = 0.0, 100.0  # one value alone has no scale
    if values and min(values) >= 0.0:
        low = max(0.0, low)
    if values and max(values) <= 100.0:
        high = min(100.0, high)
    axes.set_ylim(low, high)


def _start_at_zero(axes: Axes, rows: Rows, column: str) -> None:
    """Scale the axis so that half a value is half as high."""
    highest = max((value for row in rows if not math.isnan(value := _value(row, column))), default=0.0)
    axes.set_ylim(0.0, 1.1 * highest or 1.0)


def _mark_best(axes: Axes, best: dict[str, float], column: str, *, described: bool) -> None:
    value = _value(best, column)
    if math.isnan(value):
        return
    axes.axvline(best["update"], color=_BEST, linewidth=0.8, linestyle=(0, (2, 3)), zorder=1)
    axes.plot([best["update"]], [value], "o", color=_BEST, markersize=6, zorder=5, clip_on=False)
    if described:
        text = f"best {value:.4g} at {best['update']:.0f}"
        axes.set_title(text, loc="right", color=_BEST, fontproperties=font(9))


def _style_axes(axes: Axes, title: str, last: float, *, empty: bool, missing: str) -> None:
    """Style a panel up to the last update; an empty one says what is missing."""
    axes.set_title(title, loc="left", color=INK, fontproperties=font(10, title))
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c6ced6")
    axes.grid(axis="y", color="#edf0f3", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=8, length=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlim(0.0, 1.02 * last or 1.0)
    axes.set_xlabel("update", color=QUIET, fontproperties=font(8.5))
    if empty:
        axes.set_yticks([])
        axes.text(0.5, 0.5, f"no {missing} yet", transform=axes.transAxes, ha="center", color=QUIET)
