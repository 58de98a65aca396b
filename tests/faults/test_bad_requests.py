"""The verbs for Python refuse what makes no sense, as the command line does."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_runs import write_data

import antiphon
from antiphon.config.load import read_config
from antiphon.errors import ConfigError, UserError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "config.yaml"


def test_overrides_of_a_config_are_not_ignored(file: Path) -> None:
    config = read_config(file)
    for verb in (antiphon.train, antiphon.check):
        with pytest.raises(UserError, match=r"overrides: .* a Config was given; change the Config itself"):
            verb(config, overrides=["training.epochs=1"])
    assert not Path("runs").exists()


def test_a_config_made_in_python_is_checked(file: Path) -> None:
    config = read_config(file)
    wrong = config.model_copy(update={"decoding": config.decoding.model_copy(update={"joint": 0.5, "beam": 1})})
    with pytest.raises(ConfigError, match=r"decoding.joint: 0.5 reranks the answers of a beam"):
        antiphon.train(wrong, out="run")
    assert not Path("run").exists()
    [problem] = antiphon.check(wrong).problems
    assert problem.startswith("decoding.joint: 0.5 reranks")


def test_check_takes_what_train_takes(file: Path) -> None:
    reports = [antiphon.check(one) for one in (read_config(file), file, str(file))]
    assert reports[0] == reports[1] == reports[2]
    assert reports[0].problems == []
    assert "train: 180 pairs" in reports[0].facts[0]
    assert antiphon.check(file, ["training.batch_tokens=32"]).facts != reports[0].facts


def test_check_finds_faults_of_config_and_data_together(file: Path) -> None:
    report = antiphon.check(file, ["training.optimizer.momentum=0.5", "data.dev=nowhere.tsv"])
    assert [problem.split(":")[0] for problem in report.problems] == ["training.optimizer.momentum", "nowhere.tsv"]
    assert report.facts == []
    [problem] = antiphon.check(file, ["data.source.column=-1"]).problems[:1]
    assert problem.startswith("column -1 in data")
    assert antiphon.check("nowhere.yaml").problems[0].startswith("nowhere.yaml: no such file or recipe")
