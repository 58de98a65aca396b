"""A run goes on with more updates than it was planned for, as if it had been planned so; nothing else may change."""

from __future__ import annotations

import csv
import json
import random
import secrets
from pathlib import Path

import pytest
from fault_runs import Baseline, ForkServer, checkpoints

from antiphon.config.load import read_config
from antiphon.model_folder import load_model
from antiphon.training.checkpoints import Checkpoints

# The evaluations of two epochs are those of the first half of four.
CONSTANT = ("training.schedule={kind: constant, warmup: 3}", "training.evaluate_every=7")
FOUR = (*CONSTANT, "training.epochs=4")
KILLED = -9


@pytest.fixture(scope="module")
def planned(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    """A run of four epochs from the beginning."""
    run = tmp_path_factory.mktemp("planned") / "run"
    ended = fork_server.train(run, *FOUR)
    assert ended.code == 0, ended.said
    return Baseline(run, 0.0, ended.passed or 0, ended.said)


def changes(run: Path) -> list[tuple[int, list[str]]]:
    rows = [json.loads(line) for line in (run / "changes.jsonl").read_text("utf-8").splitlines()]
    return [(row["update"], row["changes"]) for row in rows]


def timeless(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: row[name] for name in row if name not in ("seconds", "tokens_per_second")} for row in rows]


def test_an_extended_run_is_the_one_planned_so_long(fork_server: ForkServer, planned: Baseline, run: Path) -> None:
    """Byte for byte: averaged weights of the first end, for example, are not where it goes on from."""
    assert fork_server.train(run, *CONSTANT).code == 0
    assert json.loads((run / "summary.json").read_bytes())["stopped"] == "all 14 updates done"
    ended = fork_server.train(run, *FOUR)
    assert ended.code == 0, ended.said
    assert "training.epochs: 2 → 4\n" in ended.said
    assert "resuming from update 14" in ended.said
    assert "done: all 28 updates done" in ended.said
    planned.assert_same_end(run)
    assert timeless(run) == timeless(planned.run)
    assert changes(run) == [(14, ["training.epochs: 2 → 4"])]
    assert read_config(run / "config.yaml") == read_config(planned.run / "config.yaml")
    assert "extended at update 14: `training.epochs: 2 → 4`" in (run / "card.md").read_text("utf-8")
    assert "extended at update 14" in (run / "report.html").read_text("utf-8")
    assert "curve" not in ended.said


def test_an_interrupted_run_is_extended_too(fork_server: ForkServer, planned: Baseline, run: Path) -> None:
    assert fork_server.train(run, *CONSTANT, fault=("batch", 9, "term")).code == 143
    assert fork_server.train(run, *FOUR).code == 0
    planned.assert_same_end(run)


def test_killed_while_it_is_extended(fork_server: ForkServer, planned: Baseline, run: Path) -> None:
    """At any disk operation, and in the updates that were added; the change is written down once."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    assert fork_server.train(run, *CONSTANT).code == 0
    for first in (1, 12, 24):
        fault = ("disk", first + draw.randrange(12), "kill")
        print(fault)
        assert fork_server.train(run, *FOUR, fault=fault).code == KILLED
        assert load_model(run).model.parameter_count > 0
    assert fork_server.train(run, *FOUR, fault=("batch", draw.randrange(1, 20), "kill")).code == KILLED
    ended = fork_server.train(run, *FOUR)
    assert ended.code == 0, ended.said
    planned.assert_same_end(run)
    assert changes(run) == [(14, ["training.epochs: 2 → 4"])]


def test_going_on_the_folder_holds_the_best_weights_again(fork_server: ForkServer, run: Path) -> None:
    """Not the averaged ones, which no checkpoint has."""
    options = ("training.max_updates=10", "training.learning_rate=0.05", "training.evaluate_every=2")
    assert fork_server.train(run, *options).code == 0
    outcome = json.loads((run / "summary.json").read_bytes())
    (run / "summary.json").write_text(json.dumps({**outcome, "weights": "averaged"}))
    (run / "model.safetensors").write_bytes(b"averaged")
    longer = ("training.max_updates=12", *options[1:])
    assert fork_server.train(run, *longer, fault=("batch", 1, "kill")).code == KILLED
    best = next(one for one in Checkpoints(run / "checkpoints").all() if one.update == outcome["best_update"])
    assert (run / "model.safetensors").read_bytes() == (best.folder / "model.safetensors").read_bytes()


def test_with_a_cosine_the_rest_follows_the_longer_curve(fork_server: ForkServer, run: Path) -> None:
    assert fork_server.train(run).code == 0
    ended = fork_server.train(run, "training.epochs=3")
    assert ended.code == 0, ended.said
    assert (
        "from here on the learning rate follows the curve of a run of 21 updates, so the result is not that of a run "
        "planned so long from the beginning" in ended.said
    )


def test_keys_that_alter_past_updates_are_refused_and_the_others_named(
    fork_server: ForkServer, baseline: Baseline
) -> None:
    files = {path: path.read_bytes() for path in baseline.run.rglob("*") if path.is_file()}
    ended = fork_server.train(baseline.run, "training.epochs=4", "training.dev_examples=7", "decoding.beam=2")
    assert ended.code == 2
    assert "training.dev_examples: 500 in the run, 7 now" in ended.said
    assert "of these only training.epochs, decoding.beam may change in a run that has begun" in ended.said
    assert {path: path.read_bytes() for path in baseline.run.rglob("*") if path.is_file()} == files


def test_other_keys_of_a_finished_run(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    """The run stays finished and its weights stay; its model decodes in the new way, with n-grams counted for it."""
    assert fork_server.train(run).code == 0
    ended = fork_server.train(run, "decoding.joint=0.5", "decoding.beam=3", "training.threads=2")
    assert ended.code == 0, ended.said
    assert "this run is finished (all 14 updates done); a larger training.epochs goes on from here" in ended.said
    assert "warning: this run was trained with threads 1, now 2" in ended.said
    baseline.assert_same_end(run)
    loaded = load_model(run)
    assert (loaded.config.decoding.joint, loaded.config.decoding.beam) == (0.5, 3)
    assert "joint" in loaded.rerankers
    assert changes(run) == [(14, ["training.threads: 1 → 2", "decoding.beam: 5 → 3", "decoding.joint: 0.0 → 0.5"])]
    assert "decoding.joint: 0.0 → 0.5" in (run / "card.md").read_text("utf-8")


def test_metrics_may_be_added(fork_server: ForkServer, run: Path) -> None:
    """The evaluations before have none of them."""
    assert fork_server.train(run, fault=("batch", 13, "term")).code == 143
    assert fork_server.train(run, "evaluation.metrics=[chrf]").code == 0
    first, *others = timeless(run)
    assert (first["chrf"], first["exact_match"] != "") == ("", True)
    assert all(row["chrf"] != "" and row["exact_match"] == "" for row in others)


def test_fewer_updates_than_there_were_end_it_at_once(fork_server: ForkServer, run: Path) -> None:
    assert fork_server.train(run, fault=("batch", 23, "term")).code == 143
    ended = fork_server.train(run, "training.epochs=1")
    assert ended.code == 0, ended.said
    assert "done: all 12 updates done" in ended.said
    assert checkpoints(run)[-1] == "00000012"
