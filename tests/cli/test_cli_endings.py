"""A run that has learnt nothing says so everywhere, again and again, and exits with its own code."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from cli_calls import Command

from antiphon.cli.train import NOTHING_LEARNT
from antiphon.inference.generator import Generator
from antiphon.model_folder import load_model
from antiphon.training import endings

pytestmark = pytest.mark.usefixtures("no_pictures")
SENTENCE = "this run has learnt nothing beyond the frequency of the output tokens: the lowest dev loss is "


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs whose targets are random: there is nothing to learn."""
    draw, path = random.Random(3), tmp_path_factory.mktemp("noise") / "noise.tsv"
    rows = [[" ".join(draw.choices("abcd", k=draw.choice((3, 4)))) for _ in range(2)] for _ in range(300)]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    return path


def test_random_targets(antiphon: Command, tiny: Path, noise: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ["train", str(tiny), f"data.train={noise}", "training.max_updates=4", "training.patience=1"]
    ended = antiphon(*command, "model.encoder.dropout=0.5", "--out", str(run))
    assert ended.code == NOTHING_LEARNT == 3
    assert ended.out == f"{run}\n"
    assert f"{run}: {SENTENCE}" in ended.err
    assert (
        "What to try:\n  - more updates: there were 4; the same command with a larger training.max_updates" in ended.err
    )
    summary = json.loads((run / "summary.json").read_text())
    assert summary["learnt"] is False
    assert summary["problem"].startswith(SENTENCE)
    assert 2 <= len(summary["advice"]) <= 3
    assert Generator(load_model(run)).generate("a b").text is not None
    for name in ("card.md", "report.html"):
        assert SENTENCE[1:] in (run / name).read_text("utf-8"), name
    again = antiphon(*command, "model.encoder.dropout=0.5", "--out", str(run))
    assert again.code == 3
    assert "this run is finished (all 4 updates done)" in again.err
    assert f"{run}: {SENTENCE}" in again.err


def test_a_run_that_has_learnt_says_nothing_of_it(model: str) -> None:
    summary = json.loads(Path(model, "summary.json").read_text())
    assert summary["learnt"] is True
    assert summary["unigram_loss"] > min(summary["best_value"], 9.0)
    assert "advice" not in summary
    assert "learnt nothing" not in Path(model, "report.html").read_text("utf-8")
    assert "learnt nothing" not in Path(model, "card.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["training.schedule.warmup=9"], "a shorter warm-up: training.schedule.warmup is 9, of 2 updates"),
        ([], "another learning rate: training.learning_rate is 0.0003; try 0.0001 and 0.0009"),
        (["model.decoder.dropout=0.4"], "less dropout: model.decoder.dropout"),
        (["training.epochs=1", "training.batch_tokens=900"], "with a larger training.epochs goes on"),
    ],
)
def test_the_advice_fits_the_run(
    antiphon: Command, tiny: Path, tmp_path: Path, options: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "REMEDIES", 9)
    run = str(tmp_path / "run")
    usual = ["training.learning_rate=3e-4", "training.max_updates=2"]
    ended = antiphon("train", str(tiny), *usual, *options, "--out", run)
    assert ended.code == 3
    assert words in ended.err
    assert "other columns, if source and target in report.html do not belong together (data.source.column," in ended.err


def test_time_is_over_before_the_cosine_has_fallen(antiphon: Command, tiny: Path, tmp_path: Path) -> None:
    """The first update takes longer than this."""
    run = tmp_path / "run"
    options = ["training.max_minutes=1e-9", "training.schedule={kind: cosine, warmup: 0}"]
    ended = antiphon("train", str(tiny), *options, "--out", str(run))
    assert ended.code == 3
    assert "done: 1e-09 minutes are over" in ended.err
    assert (
        "the cosine was planned for 12 updates, so after 1 the learning rate had not yet fallen to its end" in ended.err
    )
    assert "with a larger training.max_minutes goes on" in ended.err
    assert json.loads((run / "summary.json").read_text())["updates"] == 1
