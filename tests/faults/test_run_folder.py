"""The run folder: whose it is, what is in it, and that interruptions leave no trace in its files."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from fault_runs import Baseline, ForkServer, checkpoints

from antiphon.config.load import read_config
from antiphon.ngrams.joint import JOINT
from antiphon.training.run_folder import FILES, RunFolder
from antiphon.training.schedule import learning_rate

PNG = b"\x89PNG\r\n\x1a\n"


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def metrics(run: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((run / "metrics.csv").read_text("utf-8"))))


def contents(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything, pictures too."""
    run = tmp_path_factory.mktemp("whole") / "run"
    ended = fork_server.train(run, pictures=True)
    assert ended.code == 0, ended.said
    return run


def test_everything_is_there_and_can_be_read(whole: Path) -> None:
    assert [name for name in FILES if not (whole / name).is_file()] == [
        "changes.jsonl",
        JOINT,
        "shortlist.safetensors",
        "registered.json",
    ]  # which this run does not want
    assert read_config(whole / "config.yaml")
    assert "epochs: 2" in (whole / "config.yaml").read_text("utf-8")
    assert set(yaml.safe_load((whole / "config.yaml").read_text("utf-8"))) == {
        "data",
        "model",
        "training",
        "decoding",
        "evaluation",
    }
    for path in whole.rglob("*.json"):
        assert isinstance(json.loads(path.read_bytes()), dict), path
    assert (whole / "command.txt").read_text("utf-8") == f"antiphon train config.yaml --out {whole}\n"
    assert {"python", "torch", "antiphon", "threads"} <= set(json.loads((whole / "environment.json").read_bytes()))
    files = json.loads((whole / "data.json").read_bytes())["files"]
    assert [(file["path"], file["lines"]) for file in files] == [("train.tsv", 180), ("dev.tsv", 30)]
    pictures = [whole / "results.png", *whole.glob("attention/*.png")]
    assert len(pictures) > 1
    assert all(picture.read_bytes().startswith(PNG) for picture in pictures)
    assert "</html>" in (whole / "report.html").read_text("utf-8")
    assert (whole / "card.md").read_text("utf-8").startswith("#")


def test_the_figures_agree(whole: Path) -> None:
    table = metrics(whole)
    assert [row["update"] for row in table] == ["5", "10", "14"]
    assert {"epoch", "train_loss", "dev_loss", "cer", "exact_match", "learning_rate", "seconds"} <= set(table[0])
    best = min(table, key=lambda row: (float(row["cer"]), float(row["dev_loss"])))
    assert [row["best"] for row in table] == [str(int(row is best)) for row in table]
    summary = json.loads((whole / "summary.json").read_bytes())
    assert (summary["updates"], summary["metric"], summary["skipped_updates"]) == (14, "cer", 0)
    assert summary["best_update"] == int(best["update"])
    assert summary["best_value"] <= float(best["cer"])
    assert [row["update"] for row in rows(whole / "samples.jsonl")] == [5, 5, 5, 10, 10, 10, 14, 14, 14]
    assert [row["update"] for row in rows(whole / "log.jsonl")] == list(range(1, 15))


def test_the_rate_is_that_of_the_last_update(whole: Path) -> None:
    training = read_config(whole / "config.yaml").training
    rates = [learning_rate(training, [], number=number, updates=14) for number in (5, 10, 14)]
    assert [float(row["learning_rate"]) for row in metrics(whole)] == pytest.approx(rates)


def test_epochs_are_counted_in_fractions(fork_server: ForkServer, whole: Path, run: Path) -> None:
    first, second, last = (float(row["epoch"]) for row in metrics(whole))
    assert 0 < first < 1 < second < 2 == last
    assert first == pytest.approx(5 / 7, abs=0.06)
    assert json.loads((whole / "summary.json").read_bytes())["epochs"] == 2
    assert fork_server.train(run, fault=("batch", 7, "term")).code == 143
    assert json.loads((run / "summary.json").read_bytes())["epochs"] == pytest.approx(4 / 7, abs=0.06)


def test_a_resume_into_an_evaluation_has_no_speed(fork_server: ForkServer, run: Path) -> None:
    """Nothing was measured, which is not the same as nothing done a second."""
    assert fork_server.train(run, fault=("evaluation", 1, "term")).code == 143
    assert fork_server.train(run).code == 0
    speeds = [float(row["tokens_per_second"]) for row in metrics(run)]
    assert math.isnan(speeds[0])
    assert min(speeds[1:]) > 0


def timeless(table: list[dict[str, str]]) -> list[dict[str, str]]:
    return [
        {name: value for name, value in row.items() if name not in ("seconds", "tokens_per_second")} for row in table
    ]


def test_interruptions_leave_no_trace(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    """No row twice, none missing, the same figures as in the run that was never killed."""
    # Before the first checkpoint; between the samples of the first and second evaluation and their checkpoints.
    for fault in (("batch", 5, "kill"), ("metrics", 2, "kill"), ("evaluation", 2, "term"), ("metrics", 2, "kill")):
        assert fork_server.train(run, fault=fault).code in (-9, 143)
    assert fork_server.train(run).code == 0
    assert timeless(metrics(run)) == timeless(metrics(baseline.run))
    assert rows(run / "samples.jsonl") == rows(baseline.run / "samples.jsonl")
    assert [row["update"] for row in rows(run / "log.jsonl")] == list(range(1, 15))


def test_rewinding_drops_later_and_torn_lines(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.append(folder.log, [{"update": update, "text": "a\u2028b"} for update in (20, 40, 60)])
    with folder.log.open("ab") as file:
        file.write(b'{"update": 80, "te\xff')
    folder.append(folder.samples, [{"update": update} for update in (5, 5, 10, 15)])
    folder.write_metrics([{"update": 5, "dev_loss": 2.0}, {"update": 10, "dev_loss": 1.0}], 10)
    folder.rewind(update=40, history=[{"update": 5, "dev_loss": 2.0}], best=5)
    assert [row["update"] for row in rows(folder.log)] == [20, 40]
    assert [row["update"] for row in rows(folder.samples)] == [5, 5]
    assert [row["update"] for row in metrics(tmp_path)] == ["5"]
    folder.rewind(update=0, history=[], best=None)
    assert rows(folder.log) == []
    assert not folder.metrics.exists()


def test_a_finished_run_is_said_to_be_finished(fork_server: ForkServer, whole: Path) -> None:
    before = contents(whole)
    ended = fork_server.train(whole)
    assert ended.code == 0
    assert f"{whole}: this run is finished (all 14 updates done)" in ended.said
    assert contents(whole) == before


def test_an_end_that_was_killed_is_written_again(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    """The summary says that all is done and a report of an earlier interruption is there: that is not the end yet."""
    assert fork_server.train(run, fault=("batch", 9, "term")).code == 143
    assert (run / "report.html").exists()
    assert fork_server.train(run, fault=("report", 1, "kill")).code == -9
    ended = fork_server.train(run)
    assert ended.code == 0, ended.said
    assert "done: all 14 updates done" in ended.said
    assert (run / "report.html").exists()
    baseline.assert_same_end(run)


def test_a_finished_run_is_mended(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    """A file of the model is lost: the checkpoints still have it."""
    assert fork_server.train(run).code == 0
    (run / "model.safetensors").write_bytes(b"broken")
    (run / "tokenizer.source.json").unlink()
    ended = fork_server.train(run)
    assert ended.code == 0, ended.said
    baseline.assert_same_end(run)
    source = "tokenizer.source.json"
    assert (run / source).read_bytes() == (baseline.run / source).read_bytes()


def test_another_config_is_refused_with_the_difference(fork_server: ForkServer, baseline: Baseline) -> None:
    before = contents(baseline.run)
    ended = fork_server.train(baseline.run, "training.learning_rate=0.5", "model.encoder.size=16")
    assert ended.code == 2
    assert f"{baseline.run}: holds a run of another configuration" in ended.said
    assert "training.learning_rate: 0.02 in the run, 0.5 now" in ended.said
    assert "model.encoder.size: 12 in the run, 16 now" in ended.said
    assert "--fresh" in ended.said
    assert contents(baseline.run) == before


def test_fresh_starts_over_and_deletes_only_what_is_ours(
    fork_server: ForkServer, baseline: Baseline, run: Path
) -> None:
    assert fork_server.train(run, "training.learning_rate=0.5", fault=("batch", 13, "term")).code == 143
    own = {"pairs.jsonl": "{}\n", "notes.json": "{}", "other.safetensors": "x"}
    for name, text in own.items():
        (run / name).write_text(text)
    ended = fork_server.train(run, "--fresh")
    assert ended.code == 0, ended.said
    assert "going on" not in ended.said
    baseline.assert_same_end(run)
    assert {name: (run / name).read_text() for name in own} == own


def test_a_killed_fresh_start_never_mixes_two_runs(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    """Until the last file of the old run is gone, the folder says that it belongs to the old run."""
    assert fork_server.train(run, "training.learning_rate=0.5", fault=("batch", 13, "term")).code == 143
    for number in (4, 9, 14):
        fork_server.train(run, "--fresh", fault=("disk", number, "kill"))
        ended = fork_server.train(run, fault=("batch", 1, "kill"))
        assert ended.code == -9 or "another configuration" in ended.said
    assert fork_server.train(run, "--fresh").code == 0
    baseline.assert_same_end(run)


def test_fresh_keeps_the_old_run_until_the_data_is_known_to_be_good(
    fork_server: ForkServer, baseline: Baseline
) -> None:
    before = contents(baseline.run)
    for data in ("data.train=nowhere.tsv", "data.dev=nowhere.tsv", "data.target.column=7"):
        ended = fork_server.train(baseline.run, data, "--fresh")
        assert ended.code == 2, ended.said
        assert contents(baseline.run) == before


@pytest.mark.parametrize("options", [[], ["--fresh"]])
@pytest.mark.parametrize(
    "name", ["config.yaml", "checkpoints/a.bin", "model.safetensors", "model.json", "environment.json", "data.json"]
)
def test_the_folder_of_another_program_is_left_alone(
    fork_server: ForkServer, run: Path, name: str, options: list[str]
) -> None:
    (run / name).parent.mkdir(parents=True)
    (run / name).write_text('{"python": "3.11", "format": 1}')
    before = contents(run)
    ended = fork_server.train(run, *options)
    assert ended.code == 2, ended.said
    assert f"{run}: has {name.split('/')[0]} but is not a run of Antiphon; choose another --out" in ended.said
    assert contents(run) == before


@pytest.mark.parametrize("options", [[], ["--fresh"]])
def test_the_folder_of_the_config_can_be_trained_in(
    fork_server: ForkServer, baseline: Baseline, run: Path, options: list[str]
) -> None:
    """`antiphon init` has written config.yaml, and `antiphon train config.yaml --out .` follows."""
    run.mkdir()
    shutil.copy(fork_server.folder / "config.yaml", run)
    assert fork_server.train(run, "training.seed=4", *options).code == 2  # this would lose what the file says
    ended = fork_server.train(run, *options)
    assert ended.code == 0, ended.said
    baseline.assert_same_end(run)


def test_fresh_never_deletes_the_config_it_trains_with(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    assert fork_server.train(run, fault=("batch", 13, "term")).code == 143
    wanted = read_config(fork_server.folder / "config.yaml")
    for number in (3, 8, 13, 18, 23, 28):
        assert fork_server.train(run, "--fresh", fault=("disk", number, "kill")).code == -9
        assert read_config(run / "config.yaml") == wanted
    assert fork_server.train(run).code == 0
    baseline.assert_same_end(run)


def test_checkpoints_without_their_config_are_nobodys(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    assert fork_server.train(run, "training.learning_rate=0.5", fault=("batch", 13, "term")).code == 143
    (run / "config.yaml").unlink()
    before = contents(run)
    ended = fork_server.train(run)
    assert ended.code == 2, ended.said
    assert f"{run}: has checkpoints but no config.yaml" in ended.said
    assert "--out" in ended.said
    assert "--fresh" in ended.said
    assert contents(run) == before
    ended = fork_server.train(run, "--fresh")
    assert ended.code == 0, ended.said
    assert "going on" not in ended.said
    baseline.assert_same_end(run)


def test_a_broken_config_of_the_run_is_named(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    assert fork_server.train(run, fault=("batch", 13, "term")).code == 143
    (run / "config.yaml").write_text("data: {train: train.tsv}\ntraining: {epoch: 2}\n")
    ended = fork_server.train(run)
    assert ended.code == 2, ended.said
    assert f"{run / 'config.yaml'}: training.epoch: 'training' has no such key" in ended.said
    assert "put the config.yaml of the run back" in ended.said
    assert fork_server.train(run, "--fresh").code == 0
    baseline.assert_same_end(run)


def test_other_tokens_are_refused(fork_server: ForkServer, run: Path) -> None:
    """The same data, but another version cuts it otherwise: the weights would mean other tokens."""
    assert fork_server.train(run, fault=("batch", 13, "term")).code == 143
    path = run / "tokenizer.target.json"
    tokens = json.loads(path.read_bytes())
    tokens["symbols"].reverse()
    path.write_text(json.dumps(tokens))
    before = contents(run)
    ended = fork_server.train(run)
    assert ended.code == 2, ended.said
    assert f"{path}: the data now gives other tokens than when the run began" in ended.said
    assert "environment.json" in ended.said
    assert "--fresh" in ended.said
    assert contents(run) == before


def test_a_command_that_is_not_utf8_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["antiphon", "train", "caf\udce9"])
    RunFolder(tmp_path).write_facts({})
    assert (tmp_path / "command.txt").read_text("utf-8") == "antiphon train 'caf\\udce9'\n"


@pytest.fixture
def other_data(fork_server: ForkServer) -> Iterator[None]:
    path = fork_server.folder / "train.tsv"
    before = path.read_bytes()
    path.write_bytes(before + b"zzz\tzzz\n")
    yield
    path.write_bytes(before)


def test_other_data_is_refused(fork_server: ForkServer, run: Path, request: pytest.FixtureRequest) -> None:
    """A run that stands in the middle cannot go on with data of which it has not seen the first half."""
    assert fork_server.train(run, fault=("batch", 13, "term")).code == 143
    before = checkpoints(run)
    request.getfixturevalue("other_data")
    ended = fork_server.train(run)
    assert ended.code == 2, ended.said
    assert f"train.tsv: has changed since the run in {run} began" in ended.said
    assert "--fresh" in ended.said
    assert checkpoints(run) == before


def test_a_second_process_is_refused(fork_server: ForkServer, run: Path) -> None:
    with RunFolder(run).locked():
        ended = fork_server.train(run)
    assert ended.code == 2
    assert f"{run}: another process is training here" in ended.said
    assert "--out" in ended.said
    assert fork_server.train(run).code == 0
