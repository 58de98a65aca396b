"""Parts from outside the package: the page runs as it stands, and mistakes get a sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
CHECKS = """
import torch
from antiphon.errors import UserError
from antiphon.models.build import build_model
from antiphon.sequence import Sequence

network = build_model(config.model, source_tokens=10, target_tokens=10).eval()
assert type(network.encoder) is my_parts.AveragingEncoder
assert network.encoder.reach == 2
assert type(network.decoder.context.score) is my_parts.DistanceScore
values, mask = torch.randn(2, 5, 128), torch.arange(5) < torch.tensor([[3], [5]])
alone = network.encoder(Sequence(values[:1, :3], mask[:1, :3])).states
assert torch.allclose(network.encoder(Sequence(values, mask)).states[:1, :3], alone, atol=1e-6)  # padding has no effect

def problems(*overrides):
    settings = ["data.train=pairs.tsv", "model.encoder={kind: averaging, size: 128, options: {reach: 2}}", *overrides]
    return antiphon.check("reverse", settings).problems

assert problems() == []
assert problems("model.context.score=distance", "model.decoder.size=100") == [
    "model.context.score: DistanceScore needs states of equal size, not 100 and 128 (the decoder's and the encoder's "
    "states); set model.decoder.size to 128, or the score to bilinear"
]
assert problems("model.encoder.options={rech: 3}") == [
    "model.encoder.options.rech: 'averaging' has no such option; its options are reach"
]
assert problems("model.encoder.options={reach: far}") == [
    "model.encoder.options.reach: should be a valid integer, got 'far'"
]
[problem] = problems("model.context.score=distence")
assert "distance" in problem and "additive" in problem, problem
[problem] = problems("model.encoder.kind=averagin")
assert "did you mean 'averaging'" in problem, problem
[problem] = problems("model.encoder.layers=3")
assert problem.startswith("model.encoder.layers:"), problem
for group, name in {"score": "dot", "encoder": "lstm", "metric": "cer"}.items():
    try:
        getattr(antiphon, f"register_{group}")(name, my_parts.DistanceScore)
        raise AssertionError("a name of Antiphon's own")
    except ValueError as error:
        assert f"Antiphon has its own {group} '{name}'" in str(error), error
antiphon.register_score("distance", my_parts.DistanceScore)  # the same once more
try:
    antiphon.register_score("distance", my_parts.AveragingEncoder)
    raise AssertionError("two parts of one name")
except ValueError as error:
    assert "'distance' is my_parts DistanceScore" in str(error), error
"""
LOAD = """
import antiphon
try:
    antiphon.load("runs/mine")
except antiphon.UserError as error:
    print(*error.problems, sep="\\n")
"""


def python(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run in a folder whose modules can be imported."""
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{source}", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-W", "error", *command],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=folder,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the blocks and mistakes of the page were run."""
    folder = tmp_path_factory.mktemp("extending")
    done = python(folder, "-c", "".join(BLOCKS) + CHECKS)
    assert done.returncode == 0, done.stderr
    assert "\ndone: all " in done.stderr, "the progress of the training"
    return folder


def test_a_model_folder_names_the_modules_of_its_parts(folder: Path) -> None:
    modules = json.loads((folder / "runs" / "mine" / "registered.json").read_text("utf-8"))
    assert modules == {
        "encoder": {"averaging": "my_parts"},
        "score": {"distance": "my_parts"},
        "metric": {"same_length": "my_parts"},
    }


def test_what_is_missing_is_named(folder: Path) -> None:
    done = python(folder, "-c", LOAD)
    said = done.stdout.splitlines()
    assert (done.returncode, done.stderr, len(said)) == (0, "", 3)
    assert re.findall(r"^```text\n(.*?)\n```", PAGE, flags=re.MULTILINE | re.DOTALL) == [said[1]]


def test_an_entry_point_makes_them_known_to_the_command_line(folder: Path, tmp_path: Path) -> None:
    """A package as pip installs it: its module, and a folder of facts beside it."""
    facts = tmp_path / "my_parts-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-parts\nVersion: 1.0\n", "utf-8")
    (facts / "entry_points.txt").write_text("[antiphon.plugins]\nmy-parts = my_parts\n", "utf-8")
    (tmp_path / "my_parts.py").write_text((folder / "my_parts.py").read_text("utf-8"), "utf-8")
    (tmp_path / "in.txt").write_text("a b c\n", "utf-8")
    run, command = str(folder / "runs" / "mine"), (tmp_path, "-m", "antiphon.cli.main")
    done = python(*command, "generate", run, str(tmp_path / "in.txt"))
    assert done.returncode == 0
    assert "my_parts" not in done.stderr
    done = python(*command, "evaluate", run, str(folder / "pairs.tsv"), "--metric", "same_length")
    assert (done.returncode, "same_length" in done.stdout) == (0, True), done.stderr
    (tmp_path / "my_parts.py").write_text("import nothing_of_the_kind\n", "utf-8")
    done = python(*command, "generate", run, str(tmp_path / "in.txt"))
    assert done.returncode == 2
    assert "plugin 'my-parts' (my_parts): cannot be imported (ModuleNotFoundError" in done.stderr


def test_plugins_are_not_imported_without_need(tmp_path: Path) -> None:
    facts = tmp_path / "my_parts-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-parts\nVersion: 1.0\n", "utf-8")
    (facts / "entry_points.txt").write_text("[antiphon.plugins]\nmy-parts = my_parts\n", "utf-8")
    (tmp_path / "my_parts.py").write_text("raise AssertionError('imported')\n", "utf-8")
    (tmp_path / "pairs.tsv").write_text("a b\tb a\nb c\tc b\n", "utf-8")
    code = "import antiphon; assert antiphon.check('reverse', ['data.train=pairs.tsv']).problems == []"
    done = python(tmp_path, "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
