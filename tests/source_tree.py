"""The source of the package as syntax trees, for tests that read it without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import antiphon

ROOT = Path(antiphon.__file__).parent
PROJECT = Path(__file__).parents[1]
FILES = sorted(ROOT.rglob("*.py"))


def module_name(path: Path) -> str:
    """antiphon.data.batches for src/antiphon/data/batches.py."""
    return ".".join(("antiphon", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


PATHS = {module_name(path): path for path in FILES}
TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in PATHS.items()}


def is_type_checking(node: ast.AST) -> bool:
    """True for `if TYPE_CHECKING:`, whose imports never run."""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def walk(node: ast.AST, *, lazy: bool) -> Iterator[ast.AST]:
    """Every node below this one that runs; with `lazy` also those inside functions."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child) or (not lazy and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)):
            continue
        yield child
        yield from walk(child, lazy=lazy)


def imports(name: str, *, lazy: bool) -> set[str]:
    """The modules of the package that a module imports, or with `lazy` also those its functions import."""
    found = set()
    for node in walk(TREES[name], lazy=lazy):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {full[part] if full[part] in TREES else str(node.module) for part in full}
    return (found & set(TREES)) - {name, "antiphon"}
