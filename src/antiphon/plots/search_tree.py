"""A search tree as a picture and as text: steps from left to right, pruned branches pale, the winning path dark."""
# all lengths in inches

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes

from antiphon.inference.token_tree import TokenTree
from antiphon.plots import style
from antiphon.plots.style import ACCENT, INK, QUIET
from antiphon.search.trace import SearchTree, TreeNode
from antiphon.text import cut, visible

__all__ = ["TREE_LEGEND", "TREE_SUFFIXES", "draw_trace", "draw_tree", "tree_text"]

TREE_SUFFIXES = (*style.PICTURES, ".json")
TREE_LEGEND = (
    "* the best answer, x pruned, . an end with its score; the numbers are log p of the token and the sum of log p "
    "so far, which decides what is pruned"
)
_NOTE = (
    "on each arc log p of the token; below the token the sum of log p so far, which decides what is pruned; "
    "in a box the score of a finished answer"
)
_POINTS, _SMALL = 9.0, 6.5
_ROW = 0.36
_SUM = 0.125  # the running sum is so far below the middle of its token
_SLOPE, _STUB = 0.45, 0.42  # an arc slopes between two columns, then is level below its number
_GAP = 0.05  # between a line and a text
_BOX_GAP, _BOX_PAD = 0.13, 0.035  # before a box; around its number
_PALE, _PALE_TEXT = "#b9c2cc", "#8b95a1"  # pruned: lines are paler than texts, which are to be read
_START = "<s>"


@dataclass(frozen=True)
class _Place:
    """The place of a token: its left and right end, the end of its column, and its distance from the top."""

    left: float
    right: float
    column_end: float
    y: float


def draw_trace(trace: TokenTree, path: Path) -> None:
    """Write the tree of a search: PNG or SVG by suffix, or JSON, from which it can be drawn without the model."""
    if path.suffix.lower() == ".json":
        trace.write(path)
    else:
        draw_tree(trace.tree, trace.symbols, path, title=trace.source)


def draw_tree(tree: SearchTree, names: list[str], path: Path, title: str = "") -> None:
    """Write PNG or SVG by suffix; `names` are the tokens of the branches."""
    labels = [style.printable(name) for name in names]
    places, width, height = _place_tokens(tree, labels)
    figure, axes = style.inch_axes(width, height)
    start = style.text_size(_START, _POINTS, bold=True).width
    root = _Place(0.0, start, start, height / 2)
    style.write(axes, (root.left, root.y), _START, _POINTS, INK, va="center", bold=True)
    for node, place, label in sorted(
        zip(tree.nodes, places, labels, strict=True), key=lambda row: (row[0].winner, row[0].status != "pruned")
    ):
        _draw_arc(axes, root if node.parent is None else places[node.parent], place, node)
        _write_node(axes, place, node, label)
    if title:
        style.write_title(axes, title, longest=120, pad=6)
    style.write_note(figure, _NOTE)
    style.save_figure(figure, path)


def _place_tokens(tree: SearchTree, labels: list[str]) -> tuple[list[_Place], float, float]:
    """A column for each step, as wide as its widest node, with siblings together, best first; and the size of all."""
    columns = [tree.nodes_at(step) for step in range(tree.steps)]
    height = _ROW * max((len(column) for column in columns), default=1)
    places: dict[int, _Place] = {}
    left = end = style.text_size(_START, _POINTS, bold=True).width
    for column in columns:
        left = end + _SLOPE + _STUB
        end = left + max(_node_width(tree.nodes[number], labels[number]) for number in column)
        parents = {number: tree.nodes[number].parent for number in column}
        tops = {number: 0.0 if parent is None else places[parent].y for number, parent in parents.items()}
        for row, number in enumerate(sorted(column, key=lambda number: (tops[number], -tree.nodes[number].score))):
            y = (height - _ROW * len(column)) / 2 + _ROW * (row + 0.5)
            right = left + style.text_size(labels[number], _POINTS, bold=tree.nodes[number].winner).width
            places[number] = _Place(left, right, end, y)
    return [places[number] for number in range(len(labels))], end, height


def _node_width(node: TreeNode, label: str) -> float:
    """The width of a token, or of the sum below it, and of the box behind it."""
    width = style.text_size(label, _POINTS, bold=node.winner).width
    if node.status == "finished":
        width += _BOX_GAP + _BOX_PAD + style.text_size(_number(node.score), _SMALL).width
    return max(width, style.text_size(_number(node.total), _SMALL).width)


def _number(value: float) -> str:
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", "−")


def _line_colour(node: TreeNode) -> str:
    return ACCENT if node.winner else _PALE if node.status == "pruned" else INK


def _text_colour(node: TreeNode) -> str:
    return _PALE_TEXT if node.status == "pruned" else _line_colour(node)


def _number_colour(node: TreeNode) -> str:
    return QUIET if node.status != "pruned" and not node.winner else _text_colour(node)


def _draw_arc(axes: Axes, parent: _Place, place: _Place, node: TreeNode) -> None:
    """Draw a line from the parent to the token, with the token's log p on it.

    It leaves the column of its parent level, so that it crosses nothing there.
    """
    x = [parent.right + _GAP, parent.column_end + _GAP, place.left - _STUB, place.left - _GAP]
    axes.plot(
        x, [parent.y, parent.y, place.y, place.y], color=_line_colour(node), linewidth=1.4 if node.winner else 0.7,
        solid_joinstyle="round",
    )  # fmt: skip
    at = (place.left - _GAP, place.y - 0.015)
    style.write(axes, at, _number(node.log_prob), _SMALL, _number_colour(node), ha="right", va="bottom")


def _write_node(axes: Axes, place: _Place, node: TreeNode, label: str) -> None:
    """Write the token, the running sum below it, and the score of a finished hypothesis in a box behind it."""
    style.write(axes, (place.left, place.y), label, _POINTS, _text_colour(node), va="center", bold=node.winner)
    style.write(axes, (place.left, place.y + _SUM), _number(node.total), _SMALL, _number_colour(node), va="center")
    if node.status == "finished":
        axes.text(
            place.right + _BOX_GAP, place.y, _number(node.score), ha="left", va="center",
            color=_number_colour(node), fontproperties=style.font(_SMALL),
            bbox={"boxstyle": f"round,pad={_BOX_PAD * 72 / _SMALL}", "facecolor": "none",
                  "edgecolor": ACCENT if node.winner else _PALE},
        )  # fmt: skip


def tree_text(tree: SearchTree, names: list[str], width: int = 80) -> str:
    """A line for each branch, below its parent: token, log p, sum of log p so far, and the score of a finished answer.

    `*` marks the winning path, `x` a pruned branch, `.` an end.
    """
    children: dict[int | None, list[int]] = {}
    for number, node in enumerate(tree.nodes):
        children.setdefault(node.parent, []).append(number)
    lines: list[str] = []
    stack = [(number, "") for number in reversed(children.get(None, []))]
    while stack:
        number, indent = stack.pop()
        node = tree.nodes[number]
        mark = "*" if node.winner else {"kept": " ", "pruned": "x", "finished": "."}[node.status]
        line = f"{mark} {indent}{visible(names[number]) or '∅'}  {node.log_prob:.2f}  sum {node.total:.2f}"
        lines.append(line + (f"  score {node.score:.2f}" if node.status == "finished" else ""))
        stack += [(child, f"{indent}  ") for child in reversed(children.get(number, []))]
    return "\n".join(cut(line, width) for line in lines)
