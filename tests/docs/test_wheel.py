"""A built wheel works outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but our wheel's content."""
    dist, target = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = dist.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    return target


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "antiphon.cli.main", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_it_is_the_wheel_that_runs(installed: Path, tmp_path: Path) -> None:
    code = "import antiphon; print(antiphon.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert Path(done.stdout.strip()).is_relative_to(installed)


def test_recipes_and_pages_are_inside(installed: Path, tmp_path: Path) -> None:
    listed = run(installed, tmp_path, "recipes", "ls")
    assert listed.returncode == 0
    assert {"reverse", "g2p", "translate"} <= {line.split()[0] for line in listed.stdout.splitlines()}
    for name in ("py.typed", "reports/templates/report.html.j2", "reports/templates/card.md.j2"):
        assert (installed / "antiphon" / name).is_file()


def test_it_trains_and_answers(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}{b}\t{b}{a}\n" for a in "abcdef" for b in "abcdef"), "utf-8")
    assert run(installed, tmp_path, "init", "pairs.tsv").returncode == 0
    small = ["model.encoder.size=8", "model.decoder.size=8", "training.max_updates=2"]  # too few to learn anything
    trained = run(installed, tmp_path, "train", "config.yaml", *small, "--out", "RUN")
    assert trained.returncode == 3, trained.stderr
    (tmp_path / "in.txt").write_text("ab\n\nba\n", "utf-8")
    answered = run(installed, tmp_path, "generate", "RUN", "in.txt")
    assert answered.returncode == 0, answered.stderr
    assert answered.stdout.count("\n") == 3
