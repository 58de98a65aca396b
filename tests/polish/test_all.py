"""`__all__` is the list of what a module offers: it exists, it is true, and nobody uses anything beside it."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from source_tree import TREES

FROZEN = Path(__file__).parents[1] / "frozen" / "format2"
# A package that is only a docstring has nothing to offer.
WITH_NAMES = [name for name, tree in TREES.items() if any(not isinstance(node, ast.Expr) for node in tree.body)]


def used_from_outside() -> list[tuple[str, str, str]]:
    """(user, module, name) for every `from antiphon.module import name`, inside functions too."""
    return [
        (user, node.module, alias.name)
        for user, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in TREES
        for alias in node.names
        if f"{node.module}.{alias.name}" not in TREES
    ]


@pytest.mark.parametrize("name", WITH_NAMES)
def test_all_exists_and_is_true(name: str) -> None:
    module = importlib.import_module(name)
    listed = module.__all__
    assert [one for one, count in Counter(listed).items() if count > 1] == []
    assert [one for one in listed if not hasattr(module, one)] == []
    assert [one for one in listed if one.startswith("_") and one != "__version__"] == []


def test_what_another_module_imports_is_listed() -> None:
    """A name is public when another module uses it; the rest of a file may change without asking."""
    hidden = [use for use in used_from_outside() if use[2] not in importlib.import_module(use[1]).__all__]
    assert hidden == []


def test_nothing_imports_an_underscore() -> None:
    assert [use for use in used_from_outside() if use[2].startswith("_") and use[2] != "__version__"] == []


def test_the_package_imports_nothing_until_asked() -> None:
    """`import antiphon` is light, every public name comes when it is first used, and others are refused."""
    code = (
        "import sys, antiphon\n"
        "light = ('antiphon._version',)\n"
        "early = [name for name in sys.modules if name.startswith('antiphon.') and name not in light]\n"
        "early += [name for name in ('torch', 'numpy') if name in sys.modules]\n"
        "assert early == [], early\n"
        "assert dir(antiphon) == sorted(antiphon.__all__), dir(antiphon)\n"
        "import antiphon.autoconfig.suggest\n"  # `init` reads texts without torch
        "assert 'torch' not in sys.modules\n"
        "assert all(getattr(antiphon, name) is not None for name in antiphon.__all__)\n"
        "assert 'torch' in sys.modules\n"
        "print(hasattr(antiphon, 'nonsense'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_generate_imports_what_it_uses() -> None:
    """A line is answered without what trains, draws, reports, exports or counts: half of the start was their import."""
    unused = ["api", "autoconfig", "evaluation", "export", "plots", "reports", "serve", "training"]
    unused = [f"antiphon.{part}" for part in unused]
    unused += ["matplotlib", "sacrebleu", "rapidfuzz", "jinja2", "rich", "PIL", "pandas", "sympy", "torch._dynamo"]
    code = (
        "import sys; from antiphon.cli.main import run\n"
        f"code = run(['generate', {str(FROZEN)!r}, '-'])\n"
        f"print(code, [name for name in {unused!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input="a b\n", capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[1:] == ["0 []"], done.stderr


def test_windows_can_import_it(tmp_path: Path) -> None:
    """Modules of Unix alone are imported where they are used; without `fcntl` a run is not locked."""
    code = (
        "import sys, importlib, pathlib, pkgutil, sacrebleu\n"  # which takes what the system has
        "sys.modules['fcntl'] = sys.modules['resource'] = None\n"  # an import of them fails
        "import antiphon\n"
        "for module in pkgutil.walk_packages(antiphon.__path__, 'antiphon.'):\n"
        "    importlib.import_module(module.name)\n"
        "from antiphon.training.run_folder import RunFolder\n"
        "with RunFolder(pathlib.Path(sys.argv[1])).locked():\n"
        "    print('open')\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("open\n", "")
