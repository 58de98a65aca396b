"""The reference pages are those that the code makes; the glossary and the platforms name what exists."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import antiphon

ROOT = Path(__file__).parents[2]
PACKAGE = Path(antiphon.__file__).parent


def make_reference() -> ModuleType:
    """docs/make_reference.py as a module."""
    specification = importlib.util.spec_from_file_location("make_reference", ROOT / "docs" / "make_reference.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


PAGES = make_reference().pages()


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    path = ROOT / "docs" / "reference" / name
    stale = not path.is_file() or path.read_text("utf-8") != PAGES[name]
    assert not stale, f"{path} is stale; run: python docs/make_reference.py"


def test_there_is_no_other_page() -> None:
    assert {path.name for path in (ROOT / "docs" / "reference").iterdir()} == set(PAGES)


def test_the_glossary_names_files_that_exist() -> None:
    named = re.findall(r"^\*\*.*?\*\* \(`(.*?)`\)", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE)
    assert len(named) > 5
    assert [name for name in named if not ((PACKAGE / name).exists() or (ROOT / name).exists())] == []


def test_the_extras_are_those_of_the_project() -> None:
    """Each extra with its packages; `all` and `dev` are named by what they add."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    page = (ROOT / "docs" / "platforms.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE))
    assert rows.keys() == project["optional-dependencies"].keys()
    for extra, requirements in project["optional-dependencies"].items():
        if extra not in ("all", "dev"):
            assert rows[extra] == ", ".join(re.split(r"[>=\[]", each)[0] for each in requirements)
    core = [re.split(r"[>=\[]", each)[0] for each in project["dependencies"]]
    assert [package for package in core if package not in page] == []
