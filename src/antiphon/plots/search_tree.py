"""A search tree as a picture and as text: steps from left to right, what was dropped pale, the way that won dark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from antiphon.plots.style import ACCENT, INK, QUIET, Font, Ruler, choose_font, save_figure
from antiphon.search.trace import SearchTree, TreeNode
from antiphon.text import visible

__all__ = ["draw_tree", "tree_text"]

_POINTS, _SMALL = 9.0, 6.5
_ROW = 0.27  # inches
_ARC, _STUB = 0.85, 0.42  # inches for the arcs between two columns; they end in a level piece that carries a number
_PALE = "#b9c2cc"
_START = "<s>"


@dataclass(frozen=True)
class _Place:
    """Where a branch stands, in inches from the left and from the top."""

    left: float
    right: float
    down: float


def draw_tree(tree: SearchTree, names: list[str], path: Path, title: str = "") -> None:
    """PNG or SVG by suffix; `names` are the tokens of the branches."""
    font = choose_font([*names, title, _START])
    labels = [font.writable(name) for name in names]
    places, width, height = _places(tree, labels, Ruler(font, _POINTS))
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0.0, width)
    axes.set_ylim(height, 0.0)
    axes.axis("off")
    start = _Place(0.0, Ruler(font, _POINTS).size(_START).width, height / 2)
    _write(axes, font, _START, start, INK, bold=True)
    for number in sorted(range(len(labels)), key=lambda n: (tree.nodes[n].winner, tree.nodes[n].status != "pruned")):
        branch = tree.nodes[number]
        before = start if branch.parent is None else places[branch.parent]
        _arc(axes, font, before, places[number], branch)
        _write(axes, font, labels[number], places[number], _colour(branch), bold=branch.winner)
        if branch.status == "finished":
            _end(axes, font, places[number], branch)
    if title:
        axes.set_title(
            font.writable(title, longest=120, keep=" "), loc="left", color=INK, fontproperties=font.sized(10.5)
        )
        axes.title.set_parse_math(False)
    save_figure(figure, path)


def _places(tree: SearchTree, labels: list[str], ruler: Ruler) -> tuple[list[_Place], float, float]:
    """A column for each step, as wide as its widest token; children stand beside one another, near their parent."""
    columns = [tree.nodes_at(step) for step in range(tree.steps)]
    height = _ROW * max((len(column) for column in columns), default=1)
    places: dict[int, _Place] = {}
    left = ruler.size(_START).width
    for column in columns:
        left += _ARC
        widest = ruler.widest(labels[number] for number in column)
        for row, number in enumerate(sorted(column, key=lambda n: _order(tree.nodes[n], places))):
            down = (height - _ROW * len(column)) / 2 + _ROW * (row + 0.5)
            places[number] = _Place(left, left + ruler.size(labels[number]).width, down)
        left += widest
    return [places[number] for number in range(len(labels))], left + _ARC, height


def _order(branch: TreeNode, places: dict[int, _Place]) -> tuple[float, float]:
    """Below one another as their parents are, and the children of one parent best first."""
    return (0.0 if branch.parent is None else places[branch.parent].down, -branch.score)


def _colour(branch: TreeNode) -> str:
    return ACCENT if branch.winner else _PALE if branch.status == "pruned" else INK


def _write(axes: Axes, font: Font, label: str, place: _Place, colour: str, *, bold: bool) -> None:
    properties = font.sized(_POINTS)
    if bold:
        properties.set_weight("bold")
    axes.text(
        place.left, place.down, label, color=colour, ha="left", va="center", fontproperties=properties, parse_math=False
    )


def _arc(axes: Axes, font: Font, before: _Place, place: _Place, branch: TreeNode) -> None:
    """From the parent to the token, with log p of the token on it."""
    colour, air = _colour(branch), 0.05
    width = 1.4 if branch.winner else 0.7
    across = [before.right + air, place.left - _STUB, place.left - air]
    axes.plot(across, [before.down, place.down, place.down], color=colour, linewidth=width, solid_joinstyle="round")
    axes.text(
        place.left - air, place.down - 0.015, f"{branch.log_prob:.2f}".replace("-", "−"), ha="right", va="bottom",
        color=colour if branch.winner or branch.status == "pruned" else QUIET, fontproperties=font.sized(_SMALL),
    )  # fmt: skip


def _end(axes: Axes, font: Font, place: _Place, branch: TreeNode) -> None:
    """The score of a finished hypothesis, behind it."""
    axes.text(
        place.right + 0.06, place.down, f"{branch.score:.2f}".replace("-", "−"), ha="left", va="center",
        color=ACCENT if branch.winner else QUIET, fontproperties=font.sized(_SMALL),
        bbox={"boxstyle": "round,pad=0.25", "facecolor": "none", "edgecolor": ACCENT if branch.winner else _PALE},
    )  # fmt: skip


def tree_text(tree: SearchTree, names: list[str], width: int = 80) -> str:
    """A line for each branch, below its parent; `*` marks the way that won, `x` what was dropped, `.` an end."""
    children: dict[int | None, list[int]] = {}
    for number, branch in enumerate(tree.nodes):
        children.setdefault(branch.parent, []).append(number)
    lines: list[str] = []
    stack = [(number, "") for number in reversed(children.get(None, []))]
    while stack:
        number, before = stack.pop()
        branch = tree.nodes[number]
        mark = "*" if branch.winner else {"kept": " ", "pruned": "x", "finished": "."}[branch.status]
        line = f"{mark} {before}{visible(names[number]) or '∅'}  {branch.log_prob:.2f}"
        lines.append(line + (f"  = {branch.score:.2f}" if branch.status == "finished" else ""))
        stack += [(child, f"{before}  ") for child in reversed(children.get(number, []))]
    return "\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in lines)
