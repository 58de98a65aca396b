"""The look of all pictures: colours, fonts, labels, and figures that become files."""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import matplotlib as mpl
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.image import AxesImage

from antiphon.errors import UserError
from antiphon.files import disk_errors, write_bytes
from antiphon.text import visible

__all__ = [
    "ACCENT",
    "HEAT",
    "INK",
    "LINE",
    "MAPS",
    "PICTURES",
    "QUIET",
    "SIGNED",
    "Extent",
    "Font",
    "Ruler",
    "choose_font",
    "draw_scale",
    "folder_problems",
    "metric_label",
    "note_lines",
    "save_figure",
    "stride",
    "suffix_problems",
]

INK = "#1b2430"
QUIET = "#6b7683"
LINE = "#e3e8ee"  # between cells
ACCENT = "#1f6fb2"
HEAT = LinearSegmentedColormap.from_list("antiphon", ["#ffffff", "#cfe3f1", "#7fb5d8", "#2f7eb6", "#123f6b"])
SIGNED = LinearSegmentedColormap.from_list(  # below 0, 0, above 0
    "antiphon-signed", ["#8f3b1b", "#d9622b", "#f3c5ac", "#ffffff", "#b5d3e8", "#2f7eb6", "#123f6b"]
)


# How a metric is written beside a picture.

_METRICS = {
    "loss": "loss (nats per token)",
    "dev_loss": "loss (nats per token)",
    "perplexity": "perplexity",
    "exact_match": "exact match (%)",
    "token_accuracy": "token accuracy (%)",
    "cer": "character error rate (%)",
    "wer": "word error rate (%)",
    "per": "phoneme error rate (%)",
    "bleu": "BLEU",
    "bleu_1": "BLEU-1",
    "bleu_2": "BLEU-2",
    "bleu_3": "BLEU-3",
    "chrf": "chrF",
    "ter": "TER",
    "rouge_1": "ROUGE-1",
    "rouge_2": "ROUGE-2",
    "rouge_l": "ROUGE-L",
}


def metric_label(name: str) -> str:
    """`per` → `phoneme error rate (%)`; an unknown name is its own label."""
    return _METRICS.get(name, name.replace("_", " "))


# Where a picture may be written, asked before anything is computed.

PICTURES = (".png", ".svg")
MAPS = (*PICTURES, ".html")


def suffix_problems(path: Path, suffixes: tuple[str, ...]) -> list[str]:
    """`a.jpg: PNG or SVG can be written; give a name that ends in .png or .svg`"""
    if path.suffix.lower() in suffixes:
        return []
    kinds = _either([suffix[1:].upper() for suffix in suffixes])
    return [f"{path}: {kinds} can be written; give a name that ends in {_either(list(suffixes))}"]


def folder_problems(path: Path) -> list[str]:
    """At the command line a folder that is not there is more often mistyped than meant."""
    return [] if path.parent.is_dir() else [f"{path}: there is no folder {path.parent}; make it first"]


def _either(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


# Fonts that hold the letters asked for, and figures that become files.

_DPI = 120
_FINE = 1200  # dots an inch for measuring
_NARROWEST_NOTE = 5.2  # inches
_BASE = "DejaVu Sans"  # comes with matplotlib
_WIDER = (  # families with many scripts; only those that are installed are used
    "Noto Sans CJK", "Noto Sans", "Noto Naskh Arabic", "Noto Emoji", "Source Han Sans", "WenQuanYi",
    "Droid Sans Fallback", "Arial Unicode MS", "Hiragino Sans", "PingFang", "Apple SD Gothic", "Microsoft YaHei",
    "Yu Gothic", "Malgun Gothic", "Nirmala UI", "Segoe UI", "FreeSans", "Unifont",
)  # fmt: skip
_STAND_INS = {"\n": "↵", "\t": "⇥"}  # more fonts have these than the control pictures ␊ and ␉
_SETTINGS_LOCK = threading.Lock()  # the settings of matplotlib are global


class Font:
    """A few families that stand in for one another, and the letters they have together."""

    def __init__(self, families: list[str], known: frozenset[int]) -> None:
        self.families = families
        self._known = known

    def sized(self, size: float) -> FontProperties:
        return FontProperties(family=self.families, size=size)

    def writable(self, text: str, longest: int = 24, keep: str = "") -> str:
        """The text as this font can draw it: a letter no font has becomes its number, U+4F60; a line end is ␊ or ↵."""
        drawn = "".join(self._drawn(character, keep) for character in text)
        return drawn if len(drawn) <= longest else drawn[: longest - 1] + "…"

    def _drawn(self, character: str, keep: str) -> str:
        for seen in (visible(character, keep), _STAND_INS.get(character, "")):
            if seen and all(ord(c) in self._known for c in seen):
                return seen
        return f"U+{ord(character):04X}"


@dataclass(frozen=True)
class Extent:
    """The room that a line takes: its width, and how far it reaches above and below its baseline."""

    width: float
    above: float
    below: float

    @property
    def height(self) -> float:
        return self.above + self.below


class Ruler:
    """How large texts become, in inches."""

    def __init__(self, font: Font, points: float) -> None:
        self._font = font.sized(points)
        # Many dots an inch: where they are few, widths are rounded letter by letter.
        figure = Figure(figsize=(0.1, 0.1), dpi=_FINE)
        self._renderer: RendererBase = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]

    def size(self, text: str) -> Extent:
        """The room for a line that is drawn at its baseline; none is lower than "lp", so that all lines are alike."""
        usual, own = self._ink("lp"), self._ink(text)
        return Extent(own.width, max(usual.above, own.above), max(usual.below, own.below))

    def widest(self, texts: Iterable[str]) -> float:
        return max((self.size(text).width for text in texts), default=0.0)

    def turned(self, texts: Iterable[str], room: float) -> int:
        """The angle of labels that have so much room each: if one is too wide, all stand on their heads."""
        return 0 if self.widest(texts) <= 0.85 * room else 90

    def wrapped(self, text: str, room: float) -> str:
        """The text in lines as wide as the room; a word that is wider has a line of its own."""
        lines: list[str] = []
        for word in text.split(" "):
            longer = f"{lines[-1]} {word}" if lines else word
            if lines and self.size(longer).width <= room:
                lines[-1] = longer
            else:
                lines.append(word)
        return "\n".join(lines)

    def _ink(self, text: str) -> Extent:
        width, height, below = self._renderer.get_text_width_height_descent(text, self._font, ismath=False)
        return Extent(float(width) / _FINE, float(height - below) / _FINE, float(below) / _FINE)


def note_lines(font: Font, points: float, note: str, width: float) -> str:
    """What goes below a picture of this width; below a narrow one it is wider than that."""
    return Ruler(font, points).wrapped(font.writable(note, longest=300, keep=" "), max(width, _NARROWEST_NOTE))


def stride(points: float, cell: float) -> int:
    """Every how manieth cell of so many inches gets a label, so that labels never touch."""
    return max(1, math.ceil(1.25 * points / 72 / cell - 1e-9))


def choose_font(texts: Iterable[str]) -> Font:
    """The base font, and of the wider families as many as the letters of the texts need."""
    needed = {ord(character) for text in texts for character in visible(text)}
    families, known = [_BASE], _letters(_path(_BASE))
    for family in _installed():
        if needed <= known:
            break
        letters = _letters(_path(family))
        if (needed - known) & letters:
            families.append(family)
            known |= letters
    return Font(families, known)


def _installed() -> list[str]:
    names = sorted({entry.name for entry in fontManager.ttflist})
    return [name for family in _WIDER for name in names if name.startswith(family)]


def _path(family: str) -> str:
    return str(fontManager.findfont(FontProperties(family=[family])))


@lru_cache(maxsize=64)
def _letters(path: str) -> frozenset[int]:
    return frozenset(FT2Font(path).get_charmap())


def draw_scale(figure: Figure, image: AxesImage, font: Font, place: tuple[float, float, float, float]) -> None:
    """A narrow bar: what the colours of an image mean, from one end over 0 to the other."""
    bar = figure.colorbar(image, cax=figure.add_axes(place))
    ends = sorted({0.0, *image.get_clim()})
    names = [f"{end:.2f}".rstrip("0").rstrip(".").replace("-", "−") for end in ends]
    bar.set_ticks(ends)
    bar.set_ticklabels(names, fontproperties=font.sized(7.5), color=QUIET)
    bar.ax.tick_params(length=0, pad=3)
    bar.outline.set_linewidth(0.4)
    bar.outline.set_edgecolor(QUIET)


def save_figure(figure: Figure, path: Path) -> None:
    """PNG or SVG by suffix; the same figure gives the same bytes."""
    if problems := suffix_problems(path, PICTURES):
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
