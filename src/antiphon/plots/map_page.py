"""The map as a page: one HTML file that needs no network, with points to search, zoom and hover over."""

from __future__ import annotations

import base64
import hashlib
import html
from importlib import resources
from pathlib import Path
from string import Template

from antiphon._version import __version__
from antiphon.errors import UserError
from antiphon.files import disk_errors, write_text
from antiphon.plots.map_plane import Plane, axis_name, fitted
from antiphon.text import visible

__all__ = ["page_problems", "write_page"]

MOST = 5000  # points; with more a browser stutters
_WIDTH = 1000.0  # units of the drawing; the browser scales them to its window
_FLATTEST, _TALLEST = 450.0, 1000.0
_MARGIN = 40.0
_HINT = "Point at a dot to read its sentence; turn the wheel to zoom, drag to move."


def page_problems(path: Path, count: int) -> list[str]:
    """A sentence if there are more points than a page can show."""
    if count <= MOST:
        return []
    return [f"{path}: {count:,} points are too many for a page; draw at most {MOST:,}, or a PNG"]


def write_page(plane: Plane, labels: list[str], path: Path, title: str, note: str = "") -> None:
    """Write the points as one HTML file."""
    if len(labels) != len(plane.points):
        raise ValueError(f"{len(labels)} labels do not fit {len(plane.points)} points")
    if problems := page_problems(path, len(labels)):
        raise UserError(problems)
    parts = resources.files("antiphon.plots")
    height, places = fitted(plane.points, _WIDTH, between=(_FLATTEST, _TALLEST), margin=_MARGIN)
    script = parts.joinpath("map.js").read_text(encoding="utf-8")
    page = Template(parts.joinpath("map.html").read_text(encoding="utf-8")).substitute(
        title=_text(title),
        note=_text(note),
        hint=_text(_HINT),
        style=parts.joinpath("map.css").read_text(encoding="utf-8"),
        script=script,
        # The one script that may run is this one: whatever a sentence says, it stays text.
        hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        width=f"{_WIDTH:g}",
        height=f"{height:.0f}",
        points="\n".join(_circle(x, height - y, label) for (x, y), label in zip(places, labels, strict=True)),
        across=_text(axis_name(0, plane.shares[0])),
        down=_text(axis_name(1, plane.shares[1])),
        version=_text(__version__),
    )
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page)


def _circle(left: float, top: float, label: str) -> str:
    return f'<circle cx="{left:.2f}" cy="{top:.2f}" r="4"><title>{_text(label)}</title></circle>'


def _text(value: str) -> str:
    """Text, whatever it looks like."""
    return html.escape(visible(value, keep=" "), quote=True)
