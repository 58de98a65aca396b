"""antiphon bench: figures for each model, in a table and as JSON."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from tiny_generators import tiny_folder

import antiphon
from antiphon.cli.bench import COLUMNS, fastest
from antiphon.cli.main import run
from antiphon.data.pairs import Example
from antiphon.evaluation.bench import Measurements, Speed, Task


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
    assert [cell.strip() for cell in head.split("  ") if cell.strip()][2:] == list(COLUMNS[2:])
    assert {"sentences/s", "one by one", "p50 ms", "p95 ms"} <= {*COLUMNS}
    assert row.startswith(model)
    assert "2 texts" in told.err


def test_without_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny_folder("bahdanau", tmp_path / "model")
    assert run(["bench", model]) == 2
    assert "names no file of pairs; give --file with lines to answer" in capsys.readouterr().err
    (tmp_path / "empty.txt").write_text("\n", "utf-8")
    assert run(["bench", model, "--file", str(tmp_path / "empty.txt")]) == 2
    assert "no texts to decode" in capsys.readouterr().err


def test_rates_and_latencies() -> None:
    """A rate is the median over rounds; a latency is that of a text, over the texts of all rounds."""
    single = Task(single=True)
    rounds = [[0.01 * number for number in range(1, 11)], [0.02] * 10, [1.0] * 10]
    measured = Measurements("a", "torch", {single: rounds}, {single: [""] * 10})
    assert measured.rate(single) == pytest.approx(10 / 0.55)
    assert measured.latency(single, 0.5) == pytest.approx(50)
    assert measured.latency(single, 0.95) == pytest.approx(1000)
    measured.seconds[single] = [[0.004, 0.001, 0.002, 0.003]]
    assert (measured.latency(single, 0.5), measured.latency(single, 0.95)) == pytest.approx((2, 4))


def test_the_table_of_the_benchmark() -> None:
    """benchmarks/decoding.py has the rate in batches, one by one, and the latencies of the latter."""
    script = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "decoding.py"))
    seconds = {task: [[0.1, 0.3]] if task.single else [[0.1]] for task in script["TASKS"]}
    measured = Measurements("ours", "torch", seconds, {task: ["a b", "c d"] for task in script["TASKS"]})
    examples = [Example("x", [text], 1) for text in ("a b", "c d")]
    head, _, greedy, beam = script["table"]([measured], examples, ("ours",)).splitlines()
    assert head == "| engine | beam | batched | × ours | one by one | × ours | p50 ms | p95 ms | BLEU |"
    assert greedy.startswith("| ours | 1 | 20.0 | 1.00 | 5.0 | 1.00 | 100.0 | 300.0 | ")
    assert beam.startswith("| ours | 5 | 20.0 | 1.00 | 5.0 | 1.00 | 100.0 | 300.0 | ")


def test_an_export_is_measured_like_a_run(tmp_path: Path, lines: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs and exports are opened by the same function, so both stand in one table."""
    model = tiny_folder("transformer", tmp_path / "model")
    antiphon.export_model(model, "onnx", tmp_path / "export")
    assert run(["bench", model, str(tmp_path / "export"), "--file", lines, "--rounds", "1", "--json"]) == 0
    both = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["engine"] for one in both] == ["torch", "onnx"]
    assert all(0 < one["p50"] <= one["p95"] for one in both)


def test_which_to_use() -> None:
    def speed(name: str, batch: float, single: float) -> Speed:
        return Speed(name, "torch", sentences=batch, words=1.0, single=single, p50=1.0, p95=1.0, memory=1.0)

    assert fastest([speed("a", 2.0, 1.0)]) == []
    assert fastest([speed("a", 2.0, 1.0), speed("b", 1.0, 3.0)]) == ["in batches a is the fastest, one by one b"]
    assert fastest([speed("a", 2.0, 1.0), speed("b", 3.0, 3.0)]) == ["b is the fastest, in batches and one by one"]
