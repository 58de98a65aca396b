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
from pathlib import Path
import torch
import antiphon
from antiphon.models.attention import DistanceScore
from antiphon.models.build import build_model
from antiphon.config.load import read_config
from antiphon.errors import UserError

Path("pairs.tsv").write_text("a b c\\tc b a\\nb c\\tc b\\n")
short = ["data.train=pairs.tsv", "data.dev=pairs.tsv", "training.max_updates=2", "training.threads=1"]
config = read_config("reverse", ["model.context.score=distance", *short])
score = build_model(config.model, source_tokens=10, target_tokens=10).decoder.context.score
assert isinstance(score, DistanceScore)
query, states = torch.randn(2, 3, 128), torch.randn(2, 5, 128)
plain = -((query.unsqueeze(2) - states.unsqueeze(1)) ** 2).sum(-1)
assert torch.allclose(score(query, score.prepare(states)), plain, atol=1e-3)
try:
    DistanceScore(query=5, key=6, size=3)
    raise AssertionError("sizes that do not fit")
except ValueError as error:
    assert "DistanceScore needs states of equal size, not 5 and 6" in str(error)
unequal = ["model.context.score=distance", *short, "model.decoder.size=100"]
expected = (
    "model.context.score: DistanceScore needs states of equal size, not 100 and 128 (the decoder's and the encoder's "
    "states); set model.decoder.size to 128, or the score to bilinear"
)
assert antiphon.check("reverse", unequal).problems == [expected]
try:
    antiphon.train(read_config("reverse", unequal), "unequal")
    raise AssertionError("sizes that do not fit")
except UserError as error:
    assert error.problems == [expected]

model = antiphon.load(antiphon.train(config, "run"))
assert model.generate("a b c").weights.shape[1] == 4
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


def changes() -> list[tuple[str, str]]:
    """The file and the hunks of each diff on the page."""
    return re.findall(r"^```diff\n--- src/antiphon/(\S+)\n(.*?)^```", TOUR, flags=re.MULTILINE | re.DOTALL)


def side(hunk: str, signs: str) -> str:
    """The lines of a hunk before (" -") or after (" +") the change."""
    return "".join(line[1:] for line in hunk.splitlines(keepends=True) if line[0] in signs)


def changed(text: str, name: str, change: str) -> str:
    for hunk in change.split("@@\n"):
        before = side(hunk, " -")
        assert text.count(before) == 1, f"{name}: the tour changes lines that are not there:\n{before}"
        text = text.replace(before, side(hunk, " +"))
    return text


def test_a_score_of_ones_own_is_eleven_lines() -> None:
    """Every line that is new or changed, blank ones too."""
    assert [name for name, _ in changes()] == ["models/attention.py", "models/build.py", "config/networks.py"]
    new = [line for _, change in changes() for line in change.split("\n") if line.startswith("+")]
    assert len(new) == 11
    assert "Eleven lines in three files" in TOUR


def test_a_score_of_ones_own(tmp_path: Path) -> None:
    """The changes at the end of the tour, made in a copy of the package, which then trains with it."""
    copy = tmp_path / "antiphon"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, change in changes():
        (copy / name).write_text(changed((copy / name).read_text("utf-8"), name, change), "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", USE],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:], done.stderr) == (0, ["a score of one's own"], "")
