"""antiphon bench: figures for each model, in a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_generators import tiny_folder

from antiphon.cli.bench import fastest
from antiphon.cli.main import run
from antiphon.evaluation.bench import Speed


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "lines.txt"
    path.write_text("a b c\n\nd\n", "utf-8")
    return str(path)


def test_a_line_for_each_model(tmp_path: Path, lines: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, other = (tiny_folder("bahdanau", tmp_path / name) for name in ("model", "other"))
    assert run(["bench", model, model, other, "--file", lines, "--rounds", "1", "--json"]) == 0
    both = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["name"], one["engine"]) for one in both] == [(model, "torch"), (other, "torch")]
    for one in both:
        assert 0 < one["p50"] <= one["p95"]
        assert one["single"] > 0
        assert one["sentences"] > 0
        assert one["words"] >= 0
        assert one["memory"] > 50  # MB: python and torch are in it


def test_the_table(tmp_path: Path, lines: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny_folder("transformer", tmp_path / "model")
    assert run(["bench", model, "--file", lines, "--rounds", "1"]) == 0
    told = capsys.readouterr()
    head, row = told.out.splitlines()
    assert head.split("  ")[0].strip() == "model"
    assert row.startswith(model)
    assert "2 texts" in told.err


def test_without_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny_folder("bahdanau", tmp_path / "model")
    assert run(["bench", model]) == 2
    assert "names no file of pairs; give --file with lines to answer" in capsys.readouterr().err
    (tmp_path / "empty.txt").write_text("\n", "utf-8")
    assert run(["bench", model, "--file", str(tmp_path / "empty.txt")]) == 2
    assert "no texts to decode" in capsys.readouterr().err


def test_which_to_use() -> None:
    def speed(name: str, batch: float, single: float) -> Speed:
        return Speed(name, "torch", sentences=batch, words=1.0, single=single, p50=1.0, p95=1.0, memory=1.0)

    assert fastest([speed("a", 2.0, 1.0)]) == []
    assert fastest([speed("a", 2.0, 1.0), speed("b", 1.0, 3.0)]) == ["in batches a is the fastest, one by one b"]
    assert fastest([speed("a", 2.0, 1.0), speed("b", 3.0, 3.0)]) == ["b is the fastest, in batches and one by one"]
