"""The tour is true: its Python runs, its excerpts stand in the files, and its recipe for a new score works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import antiphon

TOUR = (Path(__file__).parents[2] / "docs" / "tour.md").read_text("utf-8")
PACKAGE = Path(antiphon.__file__).parent
USE = """
import torch
from antiphon.attention.scores import DistanceScore
from antiphon.build import build_model
from antiphon.config.read import read_config
from antiphon.sources.batches import source_batch

config = read_config("reverse", ["model.context.score=distance"])
model = build_model(config.model, source_tokens=10, target_tokens=10)
score = model.decoder.context.score
assert isinstance(score, DistanceScore)
query, states = torch.randn(2, 3, score.W.out_features), torch.randn(2, 5, score.W.in_features)
plain = -((query.unsqueeze(2) - score.W(states).unsqueeze(1)) ** 2).sum(-1)
assert torch.allclose(score(query, score.prepare(states)), plain, atol=1e-3)
model(source_batch([[4, 5], [6]]), torch.tensor([[1, 4], [1, 5]])).logits.sum().backward()
assert score.W.weight.grad.abs().sum() > 0
print("a score of one's own")
"""


def test_the_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
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


def test_a_score_of_ones_own(tmp_path: Path) -> None:
    """The changes at the end of the tour, made in a copy of the package."""
    copy = tmp_path / "antiphon"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    changes = re.findall(r"^```diff\n--- src/antiphon/(\S+)\n(.*?)^```", TOUR, flags=re.MULTILINE | re.DOTALL)
    assert [name for name, _ in changes] == ["attention/scores.py", "build.py", "config/schema.py"]
    for name, change in changes:
        text = (copy / name).read_text("utf-8")
        for before, after in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", change, flags=re.MULTILINE):
            old, new = (re.sub(r"^[-+]", "", part, flags=re.MULTILINE) for part in (before, after))
            assert text.count(old) == 1, f"{name}: the tour changes lines that are not there:\n{old}"
            text = text.replace(old, new)
        (copy / name).write_text(text, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", USE], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "a score of one's own\n", "")
