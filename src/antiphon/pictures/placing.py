"""Labels beside points, none on another: the most isolated points choose first, and who finds no room goes without."""

# n points; lengths in any unit, upwards is more

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Box", "place_labels"]

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
