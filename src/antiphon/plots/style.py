"""The common style of all pictures: colours, fonts, labels, axes in inches, and figures that become files."""

from __future__ import annotations

import io
import math
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from antiphon.errors import UserError
from antiphon.files import disk_errors, write_bytes
from antiphon.text import visible

__all__ = [
    "ACCENT", "HEAT", "INK", "LINE", "PICTURES", "QUIET", "SIGNED", "draw_colour_bar", "draw_frame", "finite_weights",
    "folder_problems", "font", "inch_axes", "label_rotation", "label_step", "label_ticks", "metric_label",
    "printable", "save_figure", "suffix_problems", "text_size", "widest", "wrap_note", "write", "write_note",
    "write_title",
]  # fmt: skip

INK = "#1b2430"
QUIET = "#6b7683"
LINE = "#e3e8ee"  # between cells
ACCENT = "#1f6fb2"
HEAT = LinearSegmentedColormap.from_list("antiphon", ["#ffffff", "#cfe3f1", "#7fb5d8", "#2f7eb6", "#123f6b"])
SIGNED = LinearSegmentedColormap.from_list(  # below 0, 0, above 0
    "antiphon-signed", ["#8f3b1b", "#d9622b", "#f3c5ac", "#ffffff", "#b5d3e8", "#2f7eb6", "#123f6b"]
)


# Names of metrics

_METRICS = {
    "loss": "loss (nats per token)",
    "dev_loss": "loss (nats per token)",
    "exact_match": "exact match (%)",
    "token_accuracy": "token accuracy (%)",
    "span_f1": "F1 of spans (%)",
    "token_error_rate": "token error rate (%)",
    "cer": "character error rate (%)",
    "wer": "word error rate (%)",
    "per": "phoneme error rate (%)",
    "chrf": "chrF",
}


def metric_label(name: str) -> str:
    """`per` → `phoneme error rate (%)`, `bleu_1` → `BLEU-1`; an unknown name is its own label."""
    if re.fullmatch(r"(bleu|ter|rouge)(_\w)?", name):
        return name.upper().replace("_", "-")
    return _METRICS.get(name, name.replace("_", " "))


# Checks of output paths, before anything is computed

PICTURES = (".png", ".svg")


def suffix_problems(path: Path, suffixes: tuple[str, ...] = PICTURES) -> list[str]:
    """`a.jpg: PNG or SVG can be written; give a name that ends in .png or .svg`"""
    if path.suffix.lower() in suffixes:
        return []
    formats, endings = (
        f"{', '.join(names[:-1])} or {names[-1]}" for names in ([name[1:].upper() for name in suffixes], suffixes)
    )
    return [f"{path}: {formats} can be written; give a name that ends in {endings}"]


def folder_problems(path: Path) -> list[str]:
    """A missing folder is refused: on the command line it is usually a typing error."""
    return [] if path.parent.is_dir() else [f"{path}: there is no folder {path.parent}; make it first"]


# Fonts: a family for each character

_BASE = "DejaVu Sans"  # comes with matplotlib
_WIDER = (  # beginnings of the names of families with other scripts, in order of preference
    "Noto Sans CJK", "Noto Sans", "Noto Naskh Arabic", "Noto Emoji", "Source Han Sans", "WenQuanYi",
    "Droid Sans Fallback", "Arial Unicode MS", "Hiragino Sans", "PingFang", "Apple SD Gothic", "Microsoft YaHei",
    "Yu Gothic", "Malgun Gothic", "Nirmala UI", "Segoe UI", "FreeSans", "Unifont",
)  # fmt: skip
_STAND_INS = {"\n": "↵", "\t": "⇥"}  # more fonts have these than the control pictures ␊ and ␉


def font(points: float, text: str = "", *, bold: bool = False) -> FontProperties:
    """A font of this size with the families that the text needs; matplotlib falls back from one to the next."""
    needed = {_family_of(character) for character in text}
    families = [family for family in _families() if family == _BASE or family in needed]
    return FontProperties(family=families, size=points, weight="bold" if bold else "normal")


def printable(text: str, longest: int = 24, keep: str = "") -> str:
    """The text as it can be drawn, cut with …; a character that no font has becomes its code point, as U+4F60."""
    drawn = "".join(_printable_character(character, keep) for character in text)
    return drawn if len(drawn) <= longest else drawn[: longest - 1] + "…"


def _printable_character(character: str, keep: str) -> str:
    for shown in (visible(character, keep), _STAND_INS.get(character, "")):
        if shown and all(_family_of(c) for c in shown):
            return shown
    return f"U+{ord(character):04X}"


@cache
def _families() -> list[str]:
    installed = sorted(fontManager.get_font_names())
    return [_BASE, *(name for start in _WIDER for name in installed if name.startswith(start))]


@lru_cache(maxsize=65536)
def _family_of(character: str) -> str | None:
    """The first family that has this character."""
    return next((family for family in _families() if ord(character) in _code_points(family)), None)


@cache
def _code_points(family: str) -> frozenset[int]:
    return frozenset(FT2Font(fontManager.findfont(FontProperties(family=[family]))).get_charmap())


# The size of texts, in inches

_MEASURING_DPI = 1200  # at a low resolution, widths would be rounded character by character
_NARROWEST_NOTE = 5.2


@dataclass(frozen=True)
class TextSize:
    """The width of a line of text, and how far it reaches above and below its baseline."""

    width: float
    ascent: float
    descent: float

    @property
    def height(self) -> float:
        return self.ascent + self.descent


def text_size(text: str, points: float, *, bold: bool = False) -> TextSize:
    """The size of a line; it is at least as high as "lp", so that all lines are alike."""
    line, own = _ink_size("lp", points, bold=bold), _ink_size(text, points, bold=bold)
    return TextSize(own.width, max(line.ascent, own.ascent), max(line.descent, own.descent))


def _ink_size(text: str, points: float, *, bold: bool) -> TextSize:
    drawn = font(points, text, bold=bold)
    width, height, descent = _renderer().get_text_width_height_descent(text, drawn, ismath=False)
    return TextSize(*(float(length) / _MEASURING_DPI for length in (width, height - descent, descent)))


@cache
def _renderer() -> RendererBase:
    renderer: RendererBase = FigureCanvasAgg(Figure(figsize=(0.1, 0.1), dpi=_MEASURING_DPI)).get_renderer()  # type: ignore[no-untyped-call]
    return renderer


def widest(texts: Iterable[str], points: float) -> float:
    """The width of the widest line."""
    return max((text_size(text, points).width for text in texts), default=0.0)


def label_rotation(labels: Iterable[str], points: float, room: float) -> int:
    """90 degrees for all labels if one of them is wider than its room, else 0."""
    return 0 if widest(labels, points) <= 0.85 * room else 90


def label_step(points: float, cell: float) -> int:
    """Label every n-th cell of this size, so that labels never touch."""
    return max(1, math.ceil(1.25 * points / 72 / cell - 1e-9))


def wrap_note(note: str, width: float, points: float = 8.0) -> str:
    """The lines of a note below a picture of this width; below a narrow picture they are wider than it."""
    lines: list[str] = []
    for word in printable(note, longest=300, keep=" ").split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_size(longer, points).width <= max(width, _NARROWEST_NOTE):
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


# Parts that pictures have in common


def finite_weights(weights: NDArray[Any]) -> NDArray[np.float64]:
    """The weights as float64, with 0 for NaN and infinities."""
    return np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def inch_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure with axes in inches: x from the left, y from the top; saving keeps what lies outside."""
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0.0, width), ylim=(height, 0.0), autoscale_on=False)
    axes.set_axis_off()
    return figure, axes


def write(
    axes: Axes,
    at: tuple[float, float],
    text: str,
    points: float,
    colour: str,
    *,
    ha: str = "left",
    va: str = "baseline",
    rotation: float = 0,
    bold: bool = False,
) -> None:
    """Write a text at (x, y); a dollar sign is a dollar sign."""
    axes.text(
        *at, text, color=colour, ha=ha, va=va, rotation=rotation, fontproperties=font(points, text, bold=bold),
        parse_math=False,
    )  # fmt: skip


def write_title(axes: Axes, title: str, *, longest: int = 100, pad: float = 10) -> None:
    """Write the title of a picture above its axes, at the left."""
    text = printable(title, longest=longest, keep=" ")
    axes.set_title(text, loc="left", pad=pad, color=INK, fontproperties=font(10.5, text), parse_math=False)


def write_note(figure: Figure, note: str) -> None:
    """Write a note below the axes that fill a figure."""
    (axes, *_), (width, height) = figure.axes, figure.get_size_inches()
    text = wrap_note(note, width)
    axes.text(
        0.0, -0.12 / height, text, transform=axes.transAxes, color=QUIET, ha="left", va="top",
        fontproperties=font(8.0, text), parse_math=False,
    )  # fmt: skip


def label_ticks(axis: Axis, labels: list[str], step: int, points: float, *, rotation: int = 0) -> None:
    """Write every n-th label at its tick; a dollar sign is a dollar sign."""
    shown = labels[::step]
    axis.set_ticks(
        range(0, len(labels), step), shown, fontproperties=font(points, "".join(shown)), rotation=rotation, color=INK,
        parse_math=False,
    )  # fmt: skip


def draw_frame(axes: Axes) -> None:
    """Draw thin quiet lines around the axes, and no ticks."""
    axes.tick_params(length=0, pad=4)
    axes.spines[:].set(color=QUIET, linewidth=0.6)


def draw_colour_bar(
    figure: Figure, image: AxesImage, *, gap: float = 0.12, top: float = 1.0, room: float = 1.0
) -> None:
    """Draw a narrow scale of the colours of an image, labelled at its ends and at 0, right of the figure.

    `gap` is in inches; `top` and `room`, the height there is at most, are shares of the figure's height.
    """
    width, height = figure.get_size_inches()
    share = min(1.5 / height, room)
    bar = figure.colorbar(image, cax=figure.add_axes((1.0 + gap / width, top - share, 0.10 / width, share)))
    ends = sorted({0.0, *image.get_clim()})
    names = [f"{end:.2f}".rstrip("0").rstrip(".").replace("-", "−") for end in ends]
    bar.set_ticks(ends)
    bar.set_ticklabels(names, fontproperties=font(7.5), color=QUIET)
    bar.ax.tick_params(length=0, pad=3)
    bar.outline.set_linewidth(0.4)
    bar.outline.set_edgecolor(QUIET)


# Files

_DPI = 120
_SETTINGS_LOCK = threading.Lock()  # the settings of matplotlib are global


def save_figure(figure: Figure, path: Path) -> None:
    """Write PNG or SVG by suffix; the same figure gives the same bytes."""
    if problems := suffix_problems(path):
        raise UserError(problems)
    suffix = path.suffix.lower()
    buffer = io.BytesIO()
    FigureCanvasAgg(figure)
    # Dates, versions and random ids would make equal pictures differ.
    metadata = {"Software": None} if suffix == ".png" else {"Date": None, "Creator": None}
    # With hinting, matplotlib 3.11 lays a ␣ on its side when a turned text was drawn before it.
    with (
        _SETTINGS_LOCK,
        mpl.rc_context({"svg.hashsalt": "antiphon", "svg.fonttype": "path", "text.hinting": "none"}),
    ):
        figure.savefig(buffer, format=suffix[1:], dpi=_DPI, metadata=metadata, bbox_inches="tight", pad_inches=0.15)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, buffer.getvalue())
