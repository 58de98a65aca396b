"""Dependencies point one way, and some things occur nowhere: read from the source, without importing it."""

from __future__ import annotations

import ast
import functools
import graphlib
import sys
from collections.abc import Iterator

import pytest
from source_tree import FILES, ROOT, imports
from source_tree import TREES as MODULES

# cli → training, inference, evaluation, export, plots, reports → search, models, data → config →
# errors, files, sequence. In finer steps, lowest first; a module may import its own layer and those before it.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("_version", "errors", "registry", "sequence", "text"),
    ("files",),
    ("cache",),
    ("config",),
    ("data", "search"),
    ("autoconfig", "models", "ngrams"),
    ("inference",),
    ("model_folder",),
    ("export",),
    ("evaluation",),
    ("plots",),
    ("reports",),
    ("training",),
    ("api", "arguments", "explaining"),
    ("serve",),
    ("cli",),
)
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
TREES = {
    path.relative_to(ROOT).as_posix(): tree
    for path, tree in zip(FILES, MODULES.values(), strict=True)
    if path != ROOT / "__init__.py"
}
LONGEST_CHAIN = 20
PICKLES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
SEARCH = [name for name in TREES if name.startswith("search/")]
# What `antiphon --help` may cost; everything else is imported inside the functions that need it.
LIGHT = {*sys.stdlib_module_names, "typer", "antiphon.cli", "antiphon.errors", "antiphon.text", "antiphon._version"}
LIGHT |= {"antiphon.inference.options"}


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported, inside functions too; `from antiphon import api` is antiphon.api."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "antiphon":
                yield from (f"antiphon.{alias.name}" for alias in node.names if alias.name != "__version__")
            else:
                yield str(node.module)


def at_the_top(tree: ast.Module) -> Iterator[str]:
    """Modules that are imported along with the module, without those under TYPE_CHECKING."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imported(ast.Module([node], []))


def part_of(module: str) -> str:
    return module.split(".")[1]


def test_every_part_has_its_layer() -> None:
    assert {name.split("/")[0].removesuffix(".py") for name in TREES} == set(RANK)


@pytest.mark.parametrize("name", TREES)
def test_imports_point_downwards(name: str) -> None:
    own = RANK[name.split("/")[0].removesuffix(".py")]
    upwards = [
        module for module in imported(TREES[name]) if module.startswith("antiphon.") and RANK[part_of(module)] > own
    ]
    assert upwards == []


@pytest.mark.parametrize("lazy", [False, True], ids=["at load time", "inside functions, too"])
def test_no_import_cycle(lazy: bool) -> None:
    graph = {name: imports(name, lazy=lazy) for name in MODULES}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_import_chains_are_short() -> None:
    """The modules that one has to understand, at most, to understand one module."""

    @functools.cache
    def chain(name: str) -> tuple[str, ...]:
        below = (chain(module) for module in sorted(imports(name, lazy=False)))
        return (name, *max(below, key=len, default=()))

    longest = max(map(chain, MODULES), key=len)
    assert len(longest) <= LONGEST_CHAIN, " > ".join(longest)


@pytest.mark.parametrize("name", SEARCH)
def test_search_knows_no_model(name: str) -> None:
    """Of all that stands below it, search knows what a state is, and nothing else."""
    others = [module for module in imported(TREES[name]) if module.startswith("antiphon.")]
    assert [module for module in others if part_of(module) not in ("search", "sequence")] == []


@pytest.mark.parametrize("name", [name for name in TREES if name.startswith("cli/")])
def test_the_command_line_is_light(name: str) -> None:
    def light(module: str) -> bool:
        return module.split(".")[0] in LIGHT or any(f"{module}.".startswith(f"{one}.") for one in LIGHT)

    assert [module for module in at_the_top(TREES[name]) if not light(module)] == []


@pytest.mark.parametrize("name", TREES)
def test_no_pickle_and_no_code_from_data(name: str) -> None:
    tree = TREES[name]
    assert [module for module in imported(tree) if module.split(".")[0] in PICKLES] == []
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert [call.id for call in calls if isinstance(call, ast.Name) and call.id in ("eval", "exec")] == []
    dotted = {ast.unparse(call) for call in calls if isinstance(call, ast.Attribute)}
    assert dotted & {"torch.load", "torch.save", "torch.jit.load", "yaml.load", "yaml.unsafe_load"} == set()
    keywords = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.keyword)]
    assert "allow_pickle=True" not in keywords


def test_nothing_outside_the_package_is_named() -> None:
    texts = [path for path in ROOT.rglob("*") if path.suffix in (".py", ".yaml", ".html", ".css")]
    named = [path for path in texts for word in ("../shared", "/work/") if word in path.read_text("utf-8")]
    assert named == []
