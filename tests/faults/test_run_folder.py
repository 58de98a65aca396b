"""The run folder: whose it is, what is in it, and that interruptions leave no trace in its files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from fault_runs import Baseline, Forge, checkpoints

from antiphon.config.read import read_config
from antiphon.training.run_folder import FILES, RunFolder

PNG = b"\x89PNG\r\n\x1a\n"


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def metrics(run: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((run / "metrics.csv").read_text("utf-8"))))


def contents(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(forge: Forge, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything, pictures too."""
    run = tmp_path_factory.mktemp("whole") / "run"
    ended = forge.train(run, pictures=True)
    assert ended.code == 0, ended.said
    return run


def test_everything_is_there_and_can_be_read(whole: Path) -> None:
    assert not [name for name in FILES if not (whole / name).is_file()]
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
    best = min(table, key=lambda row: float(row["cer"]))
    assert [row["best"] for row in table] == [str(int(row is best)) for row in table]
    summary = json.loads((whole / "summary.json").read_bytes())
    assert (summary["updates"], summary["metric"], summary["skipped_updates"]) == (14, "cer", 0)
    assert summary["best_update"] == int(best["update"])
    assert summary["best_value"] <= float(best["cer"])
    assert [row["update"] for row in rows(whole / "samples.jsonl")] == [5, 5, 5, 10, 10, 10, 14, 14, 14]
    assert [row["update"] for row in rows(whole / "log.jsonl")] == [1]


def timeless(table: list[dict[str, str]]) -> list[dict[str, str]]:
    return [
        {name: value for name, value in row.items() if name not in ("seconds", "tokens_per_second")} for row in table
    ]


def test_interruptions_leave_no_trace(forge: Forge, baseline: Baseline, run: Path) -> None:
    """No row twice, none missing, the same figures as in the run that was never killed."""
    # Before the first checkpoint; between the samples of the first and second evaluation and their checkpoints.
    for fault in (("batch", 5, "kill"), ("metrics", 2, "kill"), ("evaluation", 2, "term"), ("metrics", 2, "kill")):
        assert forge.train(run, fault=fault).code in (-9, 143)
    assert forge.train(run).code == 0
    assert timeless(metrics(run)) == timeless(metrics(baseline.run))
    assert rows(run / "samples.jsonl") == rows(baseline.run / "samples.jsonl")
    assert [row["update"] for row in rows(run / "log.jsonl")] == [1]


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


def test_a_finished_run_is_said_to_be_finished(forge: Forge, whole: Path) -> None:
    before = contents(whole)
    ended = forge.train(whole)
    assert ended.code == 0
    assert f"{whole}: this run is finished (all 14 updates done)" in ended.said
    assert contents(whole) == before


def test_an_end_that_was_killed_is_written_again(forge: Forge, baseline: Baseline, run: Path) -> None:
    """The summary says that all is done and a report of an earlier interruption is there: that is not the end yet."""
    assert forge.train(run, fault=("batch", 9, "term")).code == 143
    assert (run / "report.html").exists()
    assert forge.train(run, fault=("report", 1, "kill")).code == -9
    ended = forge.train(run)
    assert ended.code == 0, ended.said
    assert "done: all 14 updates done" in ended.said
    assert (run / "report.html").exists()
    baseline.assert_same_end(run)


def test_a_finished_run_is_mended(forge: Forge, baseline: Baseline, run: Path) -> None:
    """A file of the model is lost: the checkpoints still have it."""
    assert forge.train(run).code == 0
    (run / "model.safetensors").write_bytes(b"broken")
    (run / "tokenizer.source.json").unlink()
    ended = forge.train(run)
    assert ended.code == 0, ended.said
    baseline.assert_same_end(run)
    source = "tokenizer.source.json"
    assert (run / source).read_bytes() == (baseline.run / source).read_bytes()


def test_another_config_is_refused_with_the_difference(forge: Forge, baseline: Baseline) -> None:
    before = contents(baseline.run)
    ended = forge.train(baseline.run, "training.learning_rate=0.5", "model.encoder.size=16")
    assert ended.code == 2
    assert f"{baseline.run}: holds a run of another configuration" in ended.said
    assert "training.learning_rate: 0.02 in the run, 0.5 now" in ended.said
    assert "model.encoder.size: 12 in the run, 16 now" in ended.said
    assert "--fresh" in ended.said
    assert contents(baseline.run) == before


def test_fresh_starts_over_and_deletes_only_what_is_ours(forge: Forge, baseline: Baseline, run: Path) -> None:
    assert forge.train(run, "training.learning_rate=0.5", fault=("batch", 13, "term")).code == 143
    own = {"pairs.jsonl": "{}\n", "notes.json": "{}", "other.safetensors": "x"}
    for name, text in own.items():
        (run / name).write_text(text)
    ended = forge.train(run, "--fresh")
    assert ended.code == 0, ended.said
    assert "going on" not in ended.said
    baseline.assert_same_end(run)
    assert {name: (run / name).read_text() for name in own} == own


def test_a_killed_fresh_start_never_mixes_two_runs(forge: Forge, baseline: Baseline, run: Path) -> None:
    """Until the last file of the old run is gone, the folder says that it belongs to the old run."""
    assert forge.train(run, "training.learning_rate=0.5", fault=("batch", 13, "term")).code == 143
    for number in (4, 9, 14):
        forge.train(run, "--fresh", fault=("disk", number, "kill"))
        ended = forge.train(run, fault=("batch", 1, "kill"))
        assert ended.code == -9 or "another configuration" in ended.said
    assert forge.train(run, "--fresh").code == 0
    baseline.assert_same_end(run)


@pytest.fixture
def other_data(forge: Forge) -> Iterator[None]:
    path = forge.folder / "train.tsv"
    before = path.read_bytes()
    path.write_bytes(before + b"zzz\tzzz\n")
    yield
    path.write_bytes(before)


def test_other_data_is_refused(forge: Forge, run: Path, request: pytest.FixtureRequest) -> None:
    """A run that stands in the middle cannot go on with data of which it has not seen the first half."""
    assert forge.train(run, fault=("batch", 13, "term")).code == 143
    before = checkpoints(run)
    request.getfixturevalue("other_data")
    ended = forge.train(run)
    assert ended.code == 2, ended.said
    assert f"train.tsv: has changed since the run in {run} began" in ended.said
    assert "--fresh" in ended.said
    assert checkpoints(run) == before


def test_a_second_process_is_refused(forge: Forge, run: Path) -> None:
    with RunFolder(run).locked():
        ended = forge.train(run)
    assert ended.code == 2
    assert f"{run}: another process is training here" in ended.said
    assert "--out" in ended.said
    assert forge.train(run).code == 0
