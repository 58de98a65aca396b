"""The tour is true: its Python runs and its excerpts stand in the files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import antiphon
from antiphon import registry

TOUR = (Path(__file__).parents[2] / "docs" / "tour.md").read_text("utf-8")
PACKAGE = Path(antiphon.__file__).parent


def test_the_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_parts", {})  # the score of the page stays on it
    blocks = re.findall(r"^```python\n(.*?)^```", TOUR, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 7
    names: dict[str, object] = {"__name__": "tour"}
    threads = torch.get_num_threads()
    try:
        for number, block in enumerate(blocks, start=1):
            exec(compile(block, f"tour.md, Python block {number}", "exec"), names)  # noqa: S102 (our own page)
    finally:
        torch.set_num_threads(threads)
    assert (tmp_path / "runs" / "tour" / "report.html").exists()


def test_the_excerpts_stand_in_their_files() -> None:
    excerpts = re.findall(r"^`src/antiphon/(\S+)`\n```py\n(.*?)^```", TOUR, flags=re.MULTILINE | re.DOTALL)
    assert len(excerpts) == len(re.findall(r"^```py$", TOUR, flags=re.MULTILINE)) >= 2
    assert [name for name, text in excerpts if text not in (PACKAGE / name).read_text("utf-8")] == []
