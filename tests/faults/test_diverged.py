"""A loss that is not finite: noticed before the step, skipped, counted, and in the end given up with a sentence."""

from __future__ import annotations

import json
import math
from pathlib import Path

from fault_runs import Baseline, ForkServer, checkpoints
from safetensors.torch import load_file

from antiphon import api

BAD = 10**9


def summary(run: Path) -> dict[str, object]:
    return dict(json.loads((run / "summary.json").read_bytes()))


def usable(run: Path) -> bool:
    """It answers, with scores that are numbers."""
    answer = api.load(run).generate("abc")
    return all(math.isfinite(value) for value in answer.log_probs)


def test_bad_updates_are_skipped_and_counted(fork_server: ForkServer, run: Path) -> None:
    """Batches 5 to 8 are the updates 3 and 4: two in a row, one fewer than it takes to stop."""
    ended = fork_server.train(run, spoilt=(5, 8))
    assert ended.code == 0, ended.said
    assert ended.said.count("the loss or its gradient is not finite; skipped") == 2
    assert summary(run)["skipped_updates"] == 2
    assert usable(run)


def test_a_skipped_update_takes_no_step(fork_server: ForkServer, run: Path) -> None:
    """Update 3 is bad and update 4 is where we stop: the weights at 3 are those at 2."""
    options = ("training.checkpoint_every=1", "training.keep=4")
    assert fork_server.train(run, *options, spoilt=(5, 6), fault=("batch", 7, "term")).code == 143
    second, third, fourth = (
        load_file(run / "checkpoints" / f"{update:08d}" / "model.safetensors") for update in (2, 3, 4)
    )
    assert all(second[name].equal(third[name]) for name in second)
    assert not all(third[name].equal(fourth[name]) for name in third)


def test_one_bad_batch_of_two_spoils_the_update(fork_server: ForkServer, run: Path) -> None:
    ended = fork_server.train(run, spoilt=(6, 6))
    assert "update 3: the loss or its gradient is not finite; skipped" in ended.said
    assert summary(run)["skipped_updates"] == 1


def test_gives_up_after_a_few_in_a_row(fork_server: ForkServer, run: Path) -> None:
    ended = fork_server.train(run, spoilt=(13, BAD))
    assert ended.code == 2, ended.said
    assert f"{run}: the loss was not finite in 3 updates in a row, up to update 9" in ended.said
    assert "lower training.learning_rate (now 0.02)" in ended.said
    assert "Traceback" not in ended.said
    assert summary(run)["stopped"] == "diverged"
    best = run / "checkpoints" / "00000005" / "model.safetensors"
    assert (run / "model.safetensors").read_bytes() == best.read_bytes()
    assert usable(run)


def test_before_the_first_evaluation_the_last_finite_weights_are_used(fork_server: ForkServer, run: Path) -> None:
    ended = fork_server.train(run, spoilt=(7, BAD))
    assert ended.code == 2, ended.said
    assert "00000003" in checkpoints(run)
    finite = run / "checkpoints" / "00000003" / "model.safetensors"
    assert (run / "model.safetensors").read_bytes() == finite.read_bytes()
    assert usable(run)


def test_from_the_first_update_the_folder_keeps_its_first_weights(fork_server: ForkServer, run: Path) -> None:
    assert fork_server.train(run, spoilt=(1, BAD)).code == 2
    assert usable(run)


def test_goes_on_when_the_cause_is_gone(fork_server: ForkServer, baseline: Baseline, run: Path) -> None:
    """The checkpoints hold nothing of the bad updates, so the same command ends as if they had never been."""
    assert fork_server.train(run, spoilt=(13, BAD)).code == 2
    ended = fork_server.train(run)
    assert ended.code == 0, ended.said
    baseline.assert_same_end(run)


def test_a_huge_learning_rate(fork_server: ForkServer, run: Path) -> None:
    """The weights themselves blow up, in steps whose gradients were still numbers."""
    options = (
        "training.learning_rate=1e38",
        "training.clip=null",
        "training.schedule.warmup=0",
        "training.evaluate_every=1",
    )
    ended = fork_server.train(run, *options)
    assert ended.code == 2, ended.said
    assert "not finite" in ended.said
    assert "bug in Antiphon" not in ended.said
    assert usable(run)


def test_the_loss_is_never_a_number_at_the_end(fork_server: ForkServer, run: Path) -> None:
    """Too few updates to give up in the loop: the evaluation notices."""
    options = (
        "training.learning_rate=1e38",
        "training.clip=null",
        "training.schedule.warmup=0",
        "training.max_updates=2",
    )
    ended = fork_server.train(run, *options, "training.schedule=constant")
    assert ended.code == 2, ended.said
    assert "the dev loss was not finite at any evaluation" in ended.said
    assert usable(run)
