"""Everything that README and docs tell people to type exists: commands, options, make targets, files, Python names."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import typer

import antiphon
from antiphon.cli.main import app
from antiphon.config.load import read_config, recipe_names, recipe_text
from antiphon.inference.generation import Generation
from antiphon.inference.generator import Generator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
SCREEN = 66
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def command_lines(text: str) -> list[str]:
    """Every line of a shell block, and every code span, from `antiphon` or `make` on."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = [span for span in re.findall(r"`([^`\n]+)`", prose) if re.match(r"(antiphon|make) [a-z]", span)]
    lines = [line for block in blocks(text, "sh") for line in block.split("\n")]
    return [found.group() for line in [*lines, *spans] if (found := re.search(r"\b(antiphon|make) [a-z].*", line))]


def header_commands(recipe: str) -> list[str]:
    """The commands in a recipe's header."""
    header = "\n".join(line for line in recipe_text(recipe).split("\n") if line.startswith("#"))
    return re.findall(r"\bantiphon [a-z].*", header.replace("`antiphon demo`", ""))


SAID = [(page.relative_to(ROOT).as_posix(), line) for page in PAGES for line in command_lines(page.read_text("utf-8"))]
SAID += [(f"recipe {name}", line) for name in recipe_names() for line in header_commands(name)]


@pytest.mark.parametrize(("page", "line"), [said for said in SAID if said[1].startswith("antiphon")])
def test_every_command_can_be_typed(page: str, line: str) -> None:
    """Parsed as the shell and the command line parse it, down to options, types and numbers of arguments."""
    name, *arguments = shlex.split(line, comments=True)[1:]
    assert name in COMMANDS, f"{page}: no command {name}"
    bare = not arguments and name != "demo"  # only named, as in "`antiphon score` gives ..."
    COMMANDS[name].make_context(name, arguments, resilient_parsing=bare)
    known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert {*re.findall(r"--[a-z][a-z0-9-]*", line)} <= known, "also what stands in a comment"


@pytest.mark.parametrize(("page", "line"), [said for said in SAID if re.match(r"antiphon (train|check) ", said[1])])
def test_every_override_can_be_read(page: str, line: str) -> None:
    if (page, "score=distance" in line) == ("docs/tour.md", True):
        return  # the reader's own score; test_tour.py makes it
    _, config, *rest = shlex.split(line, comments=True)[1:]
    read_config(config if config in recipe_names() else "reverse", [word for word in rest if "=" in word])


@pytest.mark.parametrize(("page", "line"), [said for said in SAID if said[1].startswith("make ")])
def test_every_make_target_exists(page: str, line: str) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    assert shlex.split(line, comments=True)[1] in targets, page


def test_the_commands_are_found() -> None:
    """The two tests above see what they are meant to see."""
    readme = [line.split()[1] for page, line in SAID if page == "README.md"]
    assert {"demo", "test", "init", "check", "train", "generate", "explain", "evaluate", "score", "recipes"} <= {
        *readme
    }
    assert any(page == "docs/tour.md" and "--n-best" in line for page, line in SAID)
    assert any(page == "recipe g2p" for page, _ in SAID)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8"))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_readme_fits_a_screen() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split("\n")) <= SCREEN


def test_readme_python_names_exist() -> None:
    [block] = blocks((ROOT / "README.md").read_text("utf-8"), "python")
    known = {
        "antiphon": {*antiphon.__all__},
        "answer": {field.name for field in fields(Generation)},
        "model": {name for name in dir(Generator) if not name.startswith("_")},
    }
    used = [
        (node.value.id, node.attr)
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    assert len(used) >= 6
    assert [one for one in used if one[1] not in known[one[0]]] == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"\]\((\d{4}[^)]+)\)", (folder / "README.md").read_text("utf-8"))
    assert listed == sorted(path.name for path in folder.glob("0*.md"))


def test_the_changelog_knows_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## {antiphon.__version__}\n" in text
