"""A file reads in one sitting, a function fits a screen."""

from __future__ import annotations

import ast
from pathlib import Path

import antiphon

ROOT = Path(antiphon.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION, SHARE = 420, 40, 0.95


def function_lengths() -> dict[str, int]:
    """Lines of every function and method, decorators not counted."""
    return {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_no_file_is_longer_than_a_sitting() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").split("\n")) - 1 for path in FILES}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_nearly_every_function_fits_a_screen() -> None:
    lengths = function_lengths()
    long = {name: lines for name, lines in lengths.items() if lines >= LONGEST_FUNCTION}
    assert len(long) <= (1 - SHARE) * len(lengths), long


def test_no_function_needs_two_screens() -> None:
    assert {name: lines for name, lines in function_lengths().items() if lines > 2 * LONGEST_FUNCTION} == {}
