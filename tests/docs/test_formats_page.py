"""The configuration of docs/formats.md fits data as the page describes them, and its table names every format."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from antiphon.cli.main import run
from antiphon.config.sections import FORMATS

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text("utf-8")


def test_the_configuration_reads_nested_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / "cache"))
    [text] = re.findall(r"^```yaml\n# opus.yaml\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    Path("opus.yaml").write_text(text)
    rows = [{"translation": {"en": f"word {number}", "de": f"wort {number}"}} for number in range(40)]
    Path("opus.json").write_text(json.dumps({"data": rows}))
    assert run(["check", "opus.yaml"]) == 0


def test_every_suffix_is_on_the_page() -> None:
    assert [suffix for suffix in FORMATS if f"| `{suffix}`" not in PAGE and f", `{suffix}`" not in PAGE] == []
