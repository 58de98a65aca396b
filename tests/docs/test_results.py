"""The page of results has figures, not places for them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")


def test_no_figure_is_missing() -> None:
    assert "FIGURE-" not in RESULTS


def test_every_section_with_figures_has_its_command() -> None:
    for section in re.split(r"^## ", RESULTS, flags=re.MULTILINE)[1:]:
        assert "```sh\n" in section, section.split("\n")[0]
