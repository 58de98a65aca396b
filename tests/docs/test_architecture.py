"""The architecture page names files that exist, in walks that are short enough to follow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import antiphon

PACKAGE = Path(antiphon.__file__).parent
TEXT = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text("utf-8")


def walk(title: str) -> list[str]:
    """The files of a numbered walk, in order."""
    section = TEXT.split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([^`]+)`", section, flags=re.MULTILINE)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([a-z_0-9/]+\.py)`", TEXT))))
def test_every_named_file_exists(name: str) -> None:
    assert (PACKAGE / name).is_file() or (PACKAGE.parents[1] / name).is_file()


@pytest.mark.parametrize(("title", "most"), [("From a pair to the loss", 30), ("From a line to its answer", 20)])
def test_a_walk_names_each_file_once_and_is_short(title: str, most: int) -> None:
    files = walk(title)
    assert 10 <= len(files) <= most
    assert len(set(files)) == len(files)


def test_every_package_has_its_row() -> None:
    rows = set(re.findall(r"^\| `([a-z]+)` \|", TEXT, flags=re.MULTILINE))
    assert rows == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
