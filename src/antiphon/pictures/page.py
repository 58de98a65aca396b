"""The map as a page: one HTML file that needs no network, with points to search, zoom and hover over."""

from __future__ import annotations

import base64
import hashlib
import html
from importlib import resources
from pathlib import Path
from string import Template

import numpy as np

import antiphon
from antiphon.errors import UserError
from antiphon.files import disk_errors, write_text
from antiphon.pictures.plane import Plane, axis_name
from antiphon.visible import visible

__all__ = ["write_page"]

MOST = 5000  # points; with more a browser stutters
_WIDTH = 1000.0  # units of the drawing; the browser scales them to its window
_FLATTEST, _TALLEST = 450.0, 1000.0
_MARGIN = 40.0
_HINT = "Point at a dot to read its sentence; turn the wheel to zoom, drag to move."


def write_page(plane: Plane, labels: list[str], path: Path, title: str, note: str = "") -> None:
    """Write the points as one HTML file."""
    if len(labels) != len(plane.points):
        raise ValueError(f"{len(labels)} labels do not fit {len(plane.points)} points")
    if len(labels) > MOST:
        raise UserError(f"{path}: {len(labels):,} points are too many for a page; draw at most {MOST:,}, or a PNG")
    parts = resources.files("antiphon.pictures")
    height, places = _placed(plane)
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
        points="\n".join(_circle(place, label) for place, label in zip(places, labels, strict=True)),
        across=_text(axis_name(0, plane.shares[0])),
        down=_text(axis_name(1, plane.shares[1])),
        version=_text(antiphon.__version__),
    )
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page)


def _placed(plane: Plane) -> tuple[float, list[tuple[float, float]]]:
    """The height, and the points in the frame: one scale for both axes; downwards is less, as in the picture."""
    low, high = plane.points.min(axis=0), plane.points.max(axis=0)
    span = np.maximum(high - low, 1e-12)
    height = float(np.clip((_WIDTH - 2 * _MARGIN) * span[1] / span[0] + 2 * _MARGIN, _FLATTEST, _TALLEST))
    scale = float(((np.array([_WIDTH, height]) - 2 * _MARGIN) / span).min())
    x, y = ((plane.points - (low + high) / 2) * scale).T
    return height, [(float(left), float(top)) for left, top in zip(x + _WIDTH / 2, height / 2 - y, strict=True)]


def _circle(place: tuple[float, float], label: str) -> str:
    return f'<circle cx="{place[0]:.2f}" cy="{place[1]:.2f}" r="4"><title>{_text(label)}</title></circle>'


def _text(value: str) -> str:
    """Text, whatever it looks like."""
    return html.escape(visible(value, keep=" "), quote=True)
