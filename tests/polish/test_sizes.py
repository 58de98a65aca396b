"""A file is read in one sitting, a function fits a screen, and the package stays small."""

from __future__ import annotations

import ast
import gzip

from source_tree import FILES, ROOT

MOST_MODULES = 230  # without __init__.py; 35 of them are serve/
MOST_LINES = 42_000
LONGEST_FILE = 400
LONGEST_FUNCTION = 80
P90_FUNCTION = 20
MOST_OF_PAGE, MOST_SENT = 170_000, 63_000  # bytes of serve/page, and as they are sent; the issue asks for 150 kB

LENGTHS = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in FILES}
FUNCTIONS = {
    f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": node
    for path in FILES
    for node in ast.walk(ast.parse(path.read_text("utf-8")))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
}


def function_lengths() -> dict[str, int]:
    """Lines of every function and method, without decorators."""
    return {name: (node.end_lineno or node.lineno) - node.lineno + 1 for name, node in FUNCTIONS.items()}


def test_the_package_has_a_size_one_can_know() -> None:
    assert len([path for path in FILES if path.name != "__init__.py"]) <= MOST_MODULES
    assert sum(LENGTHS.values()) <= MOST_LINES


def test_the_page_is_small() -> None:
    contents = [path.read_bytes() for path in (ROOT / "serve" / "page").iterdir()]
    assert contents
    assert sum(map(len, contents)) <= MOST_OF_PAGE
    assert sum(len(gzip.compress(content, mtime=0)) for content in contents) <= MOST_SENT


def test_no_file_is_longer_than_a_sitting() -> None:
    assert {name: lines for name, lines in LENGTHS.items() if lines > LONGEST_FILE} == {}


def test_nine_in_ten_functions_are_short_and_none_is_long() -> None:
    lengths = function_lengths()
    assert sorted(lengths.values())[9 * len(lengths) // 10] <= P90_FUNCTION
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}


def test_every_argument_is_typed() -> None:
    untyped = [
        f"{name}({argument.arg})"
        for name, node in FUNCTIONS.items()
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if argument.annotation is None and argument.arg not in ("self", "cls")
    ]
    assert untyped == []
