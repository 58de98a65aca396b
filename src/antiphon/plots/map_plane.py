"""States as points in the plane: principal components, and a picture of them."""
# n points; lengths in any unit, upwards is more
# n points, H size of a state; lengths in inches

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from antiphon.errors import UserError
from antiphon.plots.style import ACCENT, INK, LINE, QUIET, Font, Ruler, choose_font, save_figure

__all__ = ["Box", "Plane", "axis_name", "draw_plane", "fitted", "place_labels", "principal_plane"]

# Labels beside points, none on another: the most isolated points choose first, and who finds no room goes without.

_DISTANCES = 25_000_000  # measured in all: of more than 5,000 points only every so manieth may get a label
_ROWS = 256  # points whose distances are held in memory at a time
_DISTANCE = 1.8  # radii from a point to its label
_CLEAR = np.array([3.0, 2.0])  # and from the label to other points, across and down: more than to its own
# Where a label may stand: its lower left corner is the point + (a x width, b x height) + (c, d) x the distance kept.
_PLACES = (
    (0.0, -0.5, 1, 0),
    (-1.0, -0.5, -1, 0),
    (-0.5, 0.0, 0, 1),
    (-0.5, -1.0, 0, -1),
    (0.0, 0.0, 0.7, 0.7),
    (0.0, -1.0, 0.7, -0.7),
    (-1.0, 0.0, -0.7, 0.7),
    (-1.0, -1.0, -0.7, -0.7),
)


@dataclass(frozen=True)
class Box:
    """A rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def inside(self, other: Box) -> bool:
        """Whether it lies in the other."""
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.bottom <= self.bottom
            and self.top <= other.top
        )

    def wider(self, across: float, down: float) -> NDArray[np.float64]:
        """Left, bottom, right and top with some air around."""
        return np.array([self.left - across, self.bottom - down, self.right + across, self.top + down])

    def touches(self, others: NDArray[np.float64]) -> bool:
        """Whether it shares any place with one of others [m, 4]."""
        left, bottom, right, top = others.T
        apart = (right <= self.left) | (self.right <= left) | (top <= self.bottom) | (self.top <= bottom)
        return not bool(apart.all())


def place_labels(
    points: NDArray[np.float64], sizes: NDArray[np.float64], frame: Box, *, radius: float
) -> list[Box | None]:
    """A box for each point [n, 2] whose label of width and height [n, 2] has room inside the frame, else None.

    No box touches another, nor a dot of this radius. From the dots of other points it keeps farther away than from its
    own, so that nobody takes it for theirs; points on one spot share a label.
    """
    frame = Box(frame.left + radius, frame.bottom + radius, frame.right - radius, frame.top - radius)
    dots = np.hstack([points - radius, points + radius])
    clear = np.hstack([points - _CLEAR * radius, points + _CLEAR * radius])
    taken = np.empty((0, 4))
    boxes: list[Box | None] = [None] * len(points)
    candidates = np.arange(0, len(points), max(1, len(points) ** 2 // _DISTANCES))
    for number in candidates[np.argsort(-_isolation(points, candidates), kind="stable")]:
        own = np.abs(points - points[number]).max(axis=1) <= radius
        around = np.where(own[:, None], dots, clear)
        for place in _PLACES:
            box = _box(points[number], sizes[number], place, distance=_DISTANCE * radius)
            if box.inside(frame) and not box.touches(around) and not box.touches(taken):
                boxes[number] = box
                taken = np.vstack([taken, box.wider(2 * radius, radius / 2)])
                break
    return boxes


def _box(
    point: NDArray[np.float64], size: NDArray[np.float64], place: tuple[float, float, float, float], distance: float
) -> Box:
    left = float(point[0] + place[0] * size[0] + place[2] * distance)
    bottom = float(point[1] + place[1] * size[1] + place[3] * distance)
    return Box(left, bottom, left + float(size[0]), bottom + float(size[1]))


def _isolation(points: NDArray[np.float64], candidates: NDArray[np.intp]) -> NDArray[np.float64]:
    """How far the nearest other point is from each candidate."""
    nearest = np.empty(len(candidates))
    for first in range(0, len(candidates), _ROWS):
        some = candidates[first : first + _ROWS]
        apart = np.linalg.norm(points[some, None] - points[None], axis=2)
        apart[np.arange(len(some)), some] = np.inf
        nearest[first : first + _ROWS] = apart.min(axis=1)
    return nearest


_WIDTH = 11.0
_SHORTEST, _TALLEST = 5.0, 11.0
_MARGIN = 0.35  # between the outermost points and the frame
_POINTS = 7.5
_LONGEST_LABEL = 36
_RADIUS = 0.028  # of a dot
_SAME = 1e-6  # of the largest value: a difference that single precision makes


@dataclass(frozen=True)
class Plane:
    """Points [n, 2] along the two directions in which the states differ most, and the share of variance of each."""

    points: NDArray[np.float64]
    shares: tuple[float, float]

    @property
    def one_spot(self) -> bool:
        """Whether all states are equal, so that there is no direction in which they differ."""
        return self.shares == (0.0, 0.0)


def principal_plane(states: NDArray[Any]) -> Plane:
    """X − mean = U Σ Vᵀ;  points = (X − mean) V_2;  share_k = σ_k² / Σ σ²

    A direction has no sign of its own: the largest value in it is made positive, so that equal states give equal maps.
    """
    values = np.asarray(states, dtype=np.float64)
    if not np.isfinite(values).all():
        raise UserError("the model's states are not numbers; its training has diverged, so train it again")
    if np.ptp(values, axis=0).max() <= _SAME * np.abs(values).max():
        return Plane(np.zeros((len(values), 2)), (0.0, 0.0))
    centred = values - values.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    largest = np.abs(directions).argmax(axis=1)
    directions *= np.where(directions[np.arange(len(directions)), largest] < 0, -1.0, 1.0)[:, None]
    points, variances = np.zeros((len(values), 2)), np.zeros(2)
    kept = min(2, len(sizes))
    points[:, :kept] = centred @ directions[:kept].T
    variances[:kept] = sizes[:kept] ** 2
    shares = variances / float((sizes**2).sum())
    return Plane(points, (float(shares[0]), float(shares[1])))


def axis_name(which: int, share: float) -> str:
    """What stands beside an axis."""
    return f"{('first', 'second')[which]} principal component, {100 * share:.0f} % of the variance"


def draw_plane(plane: Plane, labels: list[str], path: Path, title: str = "") -> None:
    """Write the points as PNG or SVG by suffix: every point is drawn, a label only where it fits."""
    if len(labels) != len(plane.points):
        raise ValueError(f"{len(labels)} labels do not fit {len(plane.points)} points")
    font = choose_font([*labels, title])
    height, inches = fitted(plane.points, _WIDTH, between=(_SHORTEST, _TALLEST), margin=_MARGIN)
    figure = Figure(figsize=(_WIDTH, height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0.0, _WIDTH), ylim=(0.0, height), xticks=[], yticks=[])
    size = (2 * _RADIUS * 72) ** 2
    axes.scatter(inches[:, 0], inches[:, 1], s=size, color=ACCENT, alpha=0.8, linewidths=0, zorder=3)
    _write_labels(axes, font, inches, labels, Box(0.0, 0.0, _WIDTH, height))
    _dress(axes, font, plane.shares, title)
    save_figure(figure, path)


def fitted(
    points: NDArray[np.float64], width: float, *, between: tuple[float, float], margin: float
) -> tuple[float, NDArray[np.float64]]:
    """The height of a frame, and the points in it; one scale for both axes, so that distances can be compared."""
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.maximum(high - low, 1e-12)
    height = float(np.clip((width - 2 * margin) * span[1] / span[0] + 2 * margin, *between))
    frame = np.array([width, height])
    scale = float(((frame - 2 * margin) / span).min())
    return height, (points - (low + high) / 2) * scale + frame / 2


def _write_labels(axes: Axes, font: Font, inches: NDArray[np.float64], labels: list[str], frame: Box) -> None:
    ruler = Ruler(font, _POINTS)
    texts = [font.writable(label, longest=_LONGEST_LABEL, keep=" ") for label in labels]
    extents = [ruler.size(text) for text in texts]
    sizes = np.array([(extent.width, extent.height) for extent in extents]).reshape(-1, 2)
    boxes = place_labels(inches, sizes, frame, radius=_RADIUS)
    for text, extent, box in zip(texts, extents, boxes, strict=True):
        if box is not None:
            # At the baseline: "bottom" would be that of a line as matplotlib lays it out, which is higher.
            axes.text(
                box.left, box.bottom + extent.below, text, color=INK, ha="left", va="baseline",
                fontproperties=font.sized(_POINTS), parse_math=False, zorder=4,
            )  # fmt: skip


def _dress(axes: Axes, font: Font, shares: tuple[float, float], title: str) -> None:
    axes.set_xlabel(axis_name(0, shares[0]), color=QUIET, labelpad=8).set_fontproperties(font.sized(8.5))
    axes.set_ylabel(axis_name(1, shares[1]), color=QUIET, labelpad=8).set_fontproperties(font.sized(8.5))
    for spine in axes.spines.values():
        spine.set_color(LINE)
    if title:
        text = axes.set_title(font.writable(title, longest=100, keep=" "), loc="left", pad=10, color=INK)
        text.set_fontproperties(font.sized(10.5))
        text.set_parse_math(False)
