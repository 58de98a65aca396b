"""The page of results is complete: figures, commands, and recipes that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
NOTES = (ROOT / "docs" / "lab-notes.md").read_text("utf-8")
RECIPES = {path.stem for path in (ROOT / "src" / "antiphon" / "recipes").glob("*.yaml")}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows_with_recipes(page: str) -> list[tuple[str, list[str]]]:
    """The recipe and the cells of each row, from every table that has a column `recipe`."""
    rows = []
    for table in re.findall(r"(?:^\|.*\n)+", page, flags=re.MULTILINE):
        header, _, *body = table.rstrip("\n").split("\n")
        if "recipe" in cells(header):
            column = cells(header).index("recipe")
            for line in body:
                name = re.match(r"`([^`]+)`", cells(line)[column])
                assert name, f"no recipe in: {line}"
                rows.append((name[1], cells(line)))
    return rows


def test_no_figure_is_missing() -> None:
    assert "FIGURE-" not in RESULTS


def test_every_section_with_figures_has_its_command() -> None:
    for section in re.split(r"^## ", RESULTS, flags=re.MULTILINE)[1:]:
        assert "```sh\n" in section, section.split("\n")[0]


def test_every_row_names_a_recipe_that_exists_and_has_figures() -> None:
    rows = rows_with_recipes(RESULTS)
    for name, row in rows:
        assert name in RECIPES, name
        assert re.search(r"\d", " ".join(row)), name
    assert {name for name, _ in rows} == RECIPES


@pytest.mark.parametrize("page", [RESULTS, NOTES], ids=["results", "lab-notes"])
def test_commands_use_recipes_and_benchmarks_that_exist(page: str) -> None:
    for name in re.findall(r"antiphon (?:train|check) ([\w-]+)", page):
        assert name in RECIPES, name
    for script in re.findall(r"python (benchmarks/\S+\.py)", page):
        assert (ROOT / script).is_file(), script


@pytest.mark.parametrize("page", [RESULTS, NOTES], ids=["results", "lab-notes"])
def test_links_lead_somewhere(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", page):
        linked = (ROOT / "docs" / target) if target else None
        assert linked is None or linked.exists(), target
        if anchor:
            text = page if linked is None else linked.read_text("utf-8")
            headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
