"""The words of code and documentation are those of the field."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from source_tree import FILES, PROJECT, ROOT, TREES

# Phrases that a stranger would have to translate, and allusions that only the authors understand.
BANNED = (
    "so many",
    "how manieth",
    "asked for",
    "aimed at",
    "was asked",
    "is missed",
    "the lectures",
    "company",
    "said otherwise",
    "not being one",
    "the likeliest",
    "hands out",
    "the way out",
    "where it stood",
    "goes on where",
    "our bug",
    "may stand several times",
    "what else could stand",
    "second opinion",
    "left aside",
    "the encoder spells",
    "one that ends leaves",
    "more that holds back",
)
FORBIDDEN = re.compile(rf"\b({'|'.join(BANNED)})\b", re.IGNORECASE)
EXEMPT = {"decisions", "lab-notes.md", "reference"}  # history; pages made of the code
PAGES = [
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(path for path in (PROJECT / "docs").rglob("*.md") if not EXEMPT & set(path.parts)),
]
# A docstring begins with a verb or with the thing it returns.
OPENINGS = ("What", "Which", "Whether", "How", "Where", "When", "From")


def phrases(path: Path) -> list[str]:
    """The banned phrases of a file, also those that a line break or a comment sign divides."""
    text = re.sub(r"\s+(#:?\s+)?", " ", path.read_text("utf-8"))
    return [f"{path.name}: …{text[max(0, hit.start() - 30) : hit.end() + 20]}…" for hit in FORBIDDEN.finditer(text)]


def test_code_and_help_have_no_banned_phrase() -> None:
    texts = [*FILES, *sorted(path for path in ROOT.rglob("*") if path.suffix in (".yaml", ".html", ".j2"))]
    found = [phrase for path in texts for phrase in phrases(path)]
    assert found == []


def test_pages_have_no_banned_phrase() -> None:
    found = [phrase for path in PAGES for phrase in phrases(path)]
    assert found == []


def test_docstrings_begin_with_a_verb_or_a_thing() -> None:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    found = [
        f"{name}: {text.splitlines()[0]}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, documented) and (text := ast.get_docstring(node)) and text.split()[0] in OPENINGS
    ]
    assert found == []
