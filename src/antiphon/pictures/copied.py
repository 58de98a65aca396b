"""How probable it is that each token of an answer was copied: bars beside the rows of a picture."""

from __future__ import annotations

from matplotlib.figure import Figure

from antiphon.pictures.canvas import Font, stride
from antiphon.pictures.palette import ACCENT, LINE, QUIET

__all__ = ["ROOM", "draw_copied"]

_GAP, _WIDE = 0.12, 0.45  # inches
ROOM = _GAP + _WIDE + 0.40  # with the numbers behind the bars


def draw_copied(figure: Figure, font: Font, shares: list[float], *, points: float, height: float) -> None:
    """A bar from 0 to 1 for each of the lowest rows of the figure, right of it; they are so many inches high."""
    across, down = figure.get_size_inches()
    axes = figure.add_axes((1.0 + _GAP / across, 0.0, _WIDE / across, height / down))
    axes.set(xlim=(0.0, 1.0), ylim=(len(shares) - 0.5, -0.5), xticks=[], yticks=[])
    axes.barh(range(len(shares)), shares, height=0.6, color=ACCENT)
    small = font.sized(min(points, 7.5))
    every = stride(points, height / len(shares))
    for row, share in enumerate(shares):
        if row % every == 0:
            axes.text(1.08, row, f"{share:.2f}", fontproperties=small, color=QUIET, va="center", clip_on=False)
    axes.text(0.0, -0.65, "copied", fontproperties=small, color=QUIET, va="bottom", clip_on=False)
    for spine in axes.spines.values():
        spine.set_color(LINE)
