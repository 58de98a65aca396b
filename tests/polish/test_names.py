"""A name means one thing, and a module is worth opening."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict

from source_tree import PATHS, TREES, imports

SMALL = 40  # lines
# Modules under 40 lines with a single importer, each with its reason.
SMALL_MODULES = dict.fromkeys(
    ("antiphon.cli.check", "antiphon.cli.demo", "antiphon.cli.train"), "each command of the command line is one file"
)


def test_a_small_module_has_several_importers() -> None:
    """A few lines that one module uses belong in that module."""
    importers = Counter(module for name in TREES for module in imports(name, lazy=True))
    small = {
        name
        for name, path in PATHS.items()
        if path.name not in ("__init__.py", "_version.py")
        and len(path.read_text("utf-8").splitlines()) < SMALL
        and importers[name] == 1
    }
    assert small - SMALL_MODULES.keys() == set()


def test_class_names_are_unique() -> None:
    """Private classes, too: a reader searches for the name."""
    places = defaultdict(list)
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(name)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_file_names_are_unique() -> None:
    """Except in cli/, whose files are named by their command."""
    places = defaultdict(list)
    for name, path in PATHS.items():
        if path.name != "__init__.py" and not name.startswith("antiphon.cli."):
            places[path.stem].append(name)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
