"""A run keeps the numerical settings it began with; the estimate before it leaves no trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny_runs import Watch, run, same, tiny_config, write_pairs

from antiphon.config.schema import Config
from antiphon.data.prepare import prepare
from antiphon.errors import Interrupted
from antiphon.model_folder import load
from antiphon.training import run as training_run
from antiphon.training.check import check_run
from antiphon.training.checkpoints import Checkpoints
from antiphon.training.display import StopRequested
from antiphon.training.estimate import DryRun, TrainingEstimate
from antiphon.training.numerics import MatmulProbe
from antiphon.training.run import train_run

FAST, SLOW, ROUGH = MatmulProbe(1.8, 8e-7), MatmulProbe(1.02, 8e-7), MatmulProbe(4.0, 4e-3)

pytestmark = pytest.mark.usefixtures("no_pictures")


class Stops(Watch):
    """Asks for a stop after three updates."""

    def update(self, row: dict[str, float], total: int) -> None:
        super().update(row, total)
        if row["update"] == 3:
            raise StopRequested(130)


@pytest.fixture
def tiny(tmp_path: Path) -> Config:
    write_pairs(tmp_path / "pairs.tsv")
    return tiny_config(tmp_path / "pairs.tsv", training={"max_updates": 5})


def probing(monkeypatch: pytest.MonkeyPatch, probe: MatmulProbe) -> None:
    monkeypatch.setattr(training_run, "probe_matmul", lambda: probe)


def stopped(config: Config, folder: Path) -> Watch:
    watch = Stops()
    with pytest.raises(Interrupted):
        train_run(config, folder, display=watch)
    return watch


def settings(folder: Path) -> list[str]:
    return [str(each.numerical_environment["matmul"]) for each in Checkpoints(folder / "checkpoints").all()]


def test_a_resumed_run_keeps_its_setting(tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probing(monkeypatch, FAST)
    assert any("'medium' (oneDNN" in line for line in stopped(tiny, tmp_path / "run").said)
    probing(monkeypatch, SLOW)
    resumed = run(tiny, tmp_path / "run")
    assert set(settings(resumed.folder)) == {"medium"}
    assert not any("bit-exact" in line for line in resumed.watch.said)
    assert json.loads((resumed.folder / "environment.json").read_text())["matmul"] == "medium"
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_setting_that_this_machine_cannot_compute_is_named(
    tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probing(monkeypatch, FAST)
    stopped(tiny, tmp_path / "run")
    probing(monkeypatch, ROUGH)
    resumed = run(tiny, tmp_path / "run")
    assert any("trained with matmul medium, now highest" in line for line in resumed.watch.said)
    assert settings(resumed.folder)[-1] == "highest"


def test_the_estimate_changes_no_weight(tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    estimated = run(tiny, tmp_path / "estimated")
    assert any(line.startswith("estimate: ") for line in estimated.watch.said)
    monkeypatch.setattr(training_run, "estimate_training", lambda *_: TrainingEstimate(1.0, 1.0, None))
    assert same(estimated.weights, run(tiny, tmp_path / "plain").weights)


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (TrainingEstimate(0.5, 1.0, None), "estimate: 0.5 s per epoch, evaluations apart"),
        (TrainingEstimate(0.004, 0.07771, None), "less than 0.1 s per epoch; 0.08 epochs: less than 0.1 s at most"),
        (TrainingEstimate(90.0, 50.0, 1_234_000_000), "1 min 30 s per epoch; 50 epochs: 1 h 15 min at most"),
        (TrainingEstimate(90.0, 50.0, 1_234_000_000), ", 1.2 GB of memory"),
    ],
)
def test_an_estimate_is_one_line(estimate: TrainingEstimate, words: str) -> None:
    assert words in estimate.describe()
    assert "\n" not in estimate.describe()


def tried(config: Config) -> DryRun:
    """The dry run of a configuration without problems."""
    report = check_run(config, lambda _: None)
    assert report.problems == []
    assert report.dry_run is not None
    return report.dry_run


def test_a_dry_run_counts_what_the_run_will_have(tiny: Config, tmp_path: Path) -> None:
    found, ran = tried(tiny), run(tiny, tmp_path / "run")
    assert sum(found.parameters.values()) == found.trained == load(ran.folder).model.parameter_count
    weights = {name: tensor.numel() for name, tensor in ran.weights.items()}
    assert {name.rpartition(".")[0] for name in found.parameters} == {"source", "encoder", "decoder"}
    for part, count in found.parameters.items():
        assert count == sum(size for name, size in weights.items() if name.startswith(f"{part}."))
    assert found.updates == found.batches
    assert found.source_tokens == found.target_tokens  # each target is its source backwards
    words = prepare(tiny.data, lambda _: None).train.target
    assert found.target_tokens == sum(len(words[row]) + 1 for row in range(len(words)))  # with </s>
    assert found.estimate.peak_bytes is not None
    assert found.estimate.memory["weights"] == 4 * found.trained < found.estimate.peak_bytes


def test_a_dry_run_knows_the_keys_that_change_it(tiny: Config) -> None:
    def change(**keys: object) -> Config:
        return tiny.model_validate({**tiny.model_dump(), "training": {**tiny.training.model_dump(), **keys}})

    plain = tried(tiny)
    assert plain.estimate.memory["optimizer"] == 0  # SGD without momentum
    adam = tried(change(optimizer={"kind": "adam"}))
    assert adam.estimate.memory["optimizer"] >= 2 * adam.estimate.memory["weights"]
    assert tried(change(accumulate=2)).updates == -(-plain.batches // 2)
    assert tried(change(batch_tokens=32)).batches > plain.batches
    rows = {name: value for rows in plain.sections().values() for name, value in rows}
    assert rows["target tokens"] == f"{plain.target_tokens:,}"
    assert rows["all"].split() == [f"{plain.trained:,}", "100.0%"]


def test_a_dry_run_tells_frozen_parameters(tiny: Config, tmp_path: Path) -> None:
    ran = run(tiny, tmp_path / "run")
    model = tiny.model.model_dump()
    model["encoder"] |= {"from_run": str(ran.folder), "freeze": True}
    data = {**tiny.data.model_dump(), "source": {**tiny.data.source.model_dump(), "tokenizer": str(ran.folder)}}
    found = tried(Config.model_validate({**tiny.model_dump(), "model": model, "data": data}))
    frozen = sum(size for name, size in found.parameters.items() if name.startswith(("source.", "encoder.")))
    assert found.trained == sum(found.parameters.values()) - frozen
    assert found.estimate.memory["gradients"] == 4 * found.trained
    assert [value.split()[0] for name, value in found.sections()["parameters"] if name == "frozen"] == [f"{frozen:,}"]
