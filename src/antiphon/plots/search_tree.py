"""A search tree as a picture and as text: steps from left to right, pruned branches pale, the winning path dark."""
# all lengths in inches

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes

from antiphon.plots import style
from antiphon.plots.style import ACCENT, INK, QUIET
from antiphon.search.trace import SearchTree, TreeNode
from antiphon.text import visible

__all__ = ["draw_tree", "tree_text"]

_POINTS, _SMALL = 9.0, 6.5
_ROW = 0.27
_ARC, _STUB = 0.85, 0.42  # room for the arcs between two columns; they end in a level piece that carries a number
_PALE = "#b9c2cc"
_START = "<s>"


@dataclass(frozen=True)
class _Place:
    """The place of a token: its left and right end, and its distance from the top."""

    left: float
    right: float
    y: float


def draw_tree(tree: SearchTree, names: list[str], path: Path, title: str = "") -> None:
    """Write PNG or SVG by suffix; `names` are the tokens of the branches."""
    labels = [style.printable(name) for name in names]
    places, width, height = _place_tokens(tree, labels)
    figure, axes = style.inch_axes(width, height)
    root = _Place(0.0, style.text_size(_START, _POINTS).width, height / 2)
    style.write(axes, (root.left, root.y), _START, _POINTS, INK, va="center", bold=True)
    for node, place, label in sorted(
        zip(tree.nodes, places, labels, strict=True), key=lambda row: (row[0].winner, row[0].status != "pruned")
    ):
        _draw_arc(axes, root if node.parent is None else places[node.parent], place, node)
        style.write(axes, (place.left, place.y), label, _POINTS, _colour(node), va="center", bold=node.winner)
        if node.status == "finished":
            _write_score(axes, place, node)
    if title:
        style.write_title(axes, title, longest=120, pad=6)
    style.save_figure(figure, path)


def _place_tokens(tree: SearchTree, labels: list[str]) -> tuple[list[_Place], float, float]:
    """A column for each step, as wide as its widest token, with siblings together, best first; and the size of all."""
    columns = [tree.nodes_at(step) for step in range(tree.steps)]
    height = _ROW * max((len(column) for column in columns), default=1)
    places: dict[int, _Place] = {}
    left = style.text_size(_START, _POINTS).width
    for column in columns:
        left += _ARC
        parents = {number: tree.nodes[number].parent for number in column}
        tops = {number: 0.0 if parent is None else places[parent].y for number, parent in parents.items()}
        for row, number in enumerate(sorted(column, key=lambda number: (tops[number], -tree.nodes[number].score))):
            y = (height - _ROW * len(column)) / 2 + _ROW * (row + 0.5)
            places[number] = _Place(left, left + style.text_size(labels[number], _POINTS).width, y)
        left += style.widest((labels[number] for number in column), _POINTS)
    return [places[number] for number in range(len(labels))], left + _ARC, height


def _colour(node: TreeNode) -> str:
    return ACCENT if node.winner else _PALE if node.status == "pruned" else INK


def _draw_arc(axes: Axes, parent: _Place, place: _Place, node: TreeNode) -> None:
    """Draw a line from the parent to the token, with the token's log p on it."""
    colour, gap = _colour(node), 0.05
    width = 1.4 if node.winner else 0.7
    x = [parent.right + gap, place.left - _STUB, place.left - gap]
    axes.plot(x, [parent.y, place.y, place.y], color=colour, linewidth=width, solid_joinstyle="round")
    number = colour if node.winner or node.status == "pruned" else QUIET
    log_prob = f"{node.log_prob:.2f}".replace("-", "−")
    style.write(axes, (place.left - gap, place.y - 0.015), log_prob, _SMALL, number, ha="right", va="bottom")


def _write_score(axes: Axes, place: _Place, node: TreeNode) -> None:
    """Write the score of a finished hypothesis in a box behind it."""
    axes.text(
        place.right + 0.06, place.y, f"{node.score:.2f}".replace("-", "−"), ha="left", va="center",
        color=ACCENT if node.winner else QUIET, fontproperties=style.font(_SMALL),
        bbox={"boxstyle": "round,pad=0.25", "facecolor": "none", "edgecolor": ACCENT if node.winner else _PALE},
    )  # fmt: skip


def tree_text(tree: SearchTree, names: list[str], width: int = 80) -> str:
    """A line for each branch, below its parent; `*` marks the winning path, `x` a pruned branch, `.` an end."""
    children: dict[int | None, list[int]] = {}
    for number, node in enumerate(tree.nodes):
        children.setdefault(node.parent, []).append(number)
    lines: list[str] = []
    stack = [(number, "") for number in reversed(children.get(None, []))]
    while stack:
        number, indent = stack.pop()
        node = tree.nodes[number]
        mark = "*" if node.winner else {"kept": " ", "pruned": "x", "finished": "."}[node.status]
        line = f"{mark} {indent}{visible(names[number]) or '∅'}  {node.log_prob:.2f}"
        lines.append(line + (f"  = {node.score:.2f}" if node.status == "finished" else ""))
        stack += [(child, f"{indent}  ") for child in reversed(children.get(number, []))]
    return "\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in lines)
