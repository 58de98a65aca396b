"""SIGTERM and Ctrl-C: everything saved, gone at once, and the same command goes on to the same bytes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fault_runs import ENVIRONMENT, Baseline, ForkServer, checkpoints

from antiphon.model_folder import load_model

CODES = {"term": 143, "int": 130}


@pytest.mark.parametrize("action", ["term", "int"])
@pytest.mark.parametrize(("place", "number", "update"), [("batch", 7, 4), ("evaluation", 1, 5), ("evaluation", 3, 14)])
def test_saves_leaves_and_goes_on(
    fork_server: ForkServer, baseline: Baseline, run: Path, action: str, place: str, number: int, update: int
) -> None:
    ended = fork_server.train(run, fault=(place, number, action))
    assert ended.code == CODES[action], ended.said
    assert f"stopped and saved at update {update}" in ended.said
    assert "Traceback" not in ended.said
    assert f"{update:08d}" in checkpoints(run)
    assert load_model(run).model.parameter_count > 0
    assert json.loads((run / "summary.json").read_bytes())["stopped"] == "interrupted"
    assert (run / "card.md").exists()

    ended = fork_server.train(run)
    assert ended.code == 0, ended.said
    assert f"resuming from update {update}" in ended.said
    baseline.assert_same_end(run)


def test_before_the_first_evaluation_the_model_is_that_of_the_moment(fork_server: ForkServer, run: Path) -> None:
    assert fork_server.train(run, fault=("batch", 7, "term")).code == 143
    saved = (run / "checkpoints" / "00000004" / "model.safetensors").read_bytes()
    assert (run / "model.safetensors").read_bytes() == saved


def test_during_the_evaluation_of_the_average(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    """Then the model in memory holds averaged weights, which no checkpoint may get."""
    assert fork_server.train(run, fault=("evaluation", 4, "term")).code == 143
    assert load_model(run).model.parameter_count > 0
    assert fork_server.train(run).code == 0
    baseline.assert_same_end(run)


def test_evaluation_is_left_in_the_middle(fork_server: ForkServer, run: Path) -> None:
    """The signal comes when the decoding begins; its figures are not waited for."""
    ended = fork_server.train(run, fault=("evaluation", 1, "term"))
    assert "evaluation at update 5" not in ended.said
    assert not (run / "metrics.csv").exists()


def test_the_second_signal_leaves_at_once(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    ended = fork_server.train(run, fault=("batch", 7, "term term"))
    assert ended.code == 143
    assert "saved" not in ended.said
    assert checkpoints(run) == ["00000003"]
    assert load_model(run).model.parameter_count > 0
    assert fork_server.train(run).code == 0
    baseline.assert_same_end(run)


@pytest.mark.parametrize("action", ["term", "int"])
def test_before_training_has_begun(fork_server: ForkServer, baseline: Baseline, run: Path, action: str) -> None:
    ended = fork_server.train(run, fault=("preparation", 1, action))
    assert ended.code == CODES[action]
    assert "Traceback" not in ended.said
    assert "bug in Antiphon" not in ended.said
    assert fork_server.train(run).code == 0
    baseline.assert_same_end(run)


def test_the_real_command_terminated_while_it_imports(fork_server: ForkServer, run: Path) -> None:
    command = [sys.executable, "-m", "antiphon.cli.main", "train", "config.yaml", "--out", str(run)]
    process = subprocess.Popen(
        command, cwd=fork_server.folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while "torch" not in Path(f"/proc/{process.pid}/maps").read_text():  # the command's own imports have begun
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert (out, "Traceback" in err) == ("", False), err


@pytest.mark.parametrize(("number", "update", "weights"), [(7, 4, "last"), (23, 12, "best")])
def test_a_stopped_run_has_its_pictures(
    fork_server: ForkServer, run: Path, number: int, update: int, weights: str
) -> None:
    """Before the first evaluation the curves come from the log alone, and the attention is that of the moment."""
    ended = fork_server.train(run, fault=("batch", number, "int"), pictures=True)
    assert ended.code == 130, ended.said
    assert f"saved at update {update}; drawing the report; Ctrl-C again leaves at once" in ended.said
    for picture in (run / "results.png", run / "attention" / "1.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    report = (run / "report.html").read_text("utf-8")
    assert [name in report for name in ('alt="results"', 'alt="attention/1.png"')] == [True, True]
    assert json.loads((run / "summary.json").read_bytes())["weights"] == weights
    assert len((run / "log.jsonl").read_text().splitlines()) == update


def test_the_second_signal_leaves_while_pictures_are_drawn(
    fork_server: ForkServer, baseline: Baseline, run: Path
) -> None:
    ended = fork_server.train(run, fault=("batch", 7, "int"), second="int")
    assert ended.code == 130
    assert ended.said.endswith("Ctrl-C again leaves at once\n")
    assert not (run / "results.png").exists()
    assert not (run / "report.html").exists()
    assert "00000004" in checkpoints(run)
    assert load_model(run).model.parameter_count > 0
    assert fork_server.train(run).code == 0
    baseline.assert_same_end(run)
