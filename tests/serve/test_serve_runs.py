"""A folder of runs: listed, followed while one trains, loaded when asked, and nothing beside it can be named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from file_generators import CELLS, IMAGE, file_generator, save_generator
from running_server import RunningServer, serving
from tiny_generators import tiny_folder, tiny_generator
from tiny_models import fill

from antiphon.config.schema import Config
from antiphon.model_folder import save_model
from antiphon.reports.run_record import RunRecord
from antiphon.serve.model_facts import planned_updates

WAITS = 120.0  # seconds after which something that does not happen counts as broken
TRAINING = """
import sys, antiphon
gru = {"embedding": 8, "size": 8}
antiphon.train({
    "data": {"train": [("a b", "b a"), ("c", "c"), ("a c", "c a")] * 20, "target": {"column": 1}},
    "model": {"encoder": {"kind": "gru", **gru}, "decoder": {"kind": "bahdanau", "cell": "gru", **gru}},
    "training": {"epochs": 1_000_000, "patience": None, "evaluate_every": 50, "threads": 1},
    "evaluation": {"metrics": ["exact_match"]},
}, out=sys.argv[1], display=None)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models, a run without weights; links out of the folder, and a run that lies too deep."""
    folder = tmp_path_factory.mktemp("folder") / "runs"
    tiny_folder("bahdanau", folder / "group" / "one")
    tiny_folder("transformer", folder / "two")
    tiny_folder("bahdanau", folder / "1" / "2" / "3" / "4" / "deep")
    outside = tiny_folder("bahdanau", folder.parent / "outside" / "secret")
    (folder / "link").symlink_to(Path(outside).parent, target_is_directory=True)
    (folder / "begun").mkdir()
    (folder / "begun" / "config.yaml").write_text((folder / "two" / "config.yaml").read_text())
    (folder / "begun" / "log.jsonl").write_text('{"update": 1, "loss": 2.5, "secret": "x"}\n{"update": 2, "lo')
    planted = folder / "planted"
    planted.mkdir()
    (folder.parent / "secret.yaml").write_text("password: 1")
    (planted / "config.yaml").symlink_to(folder.parent / "secret.yaml")
    (planted / "log.jsonl").write_text("")
    pictures = file_generator(folder.parent / "data", IMAGE, front=CELLS)
    path = save_generator(pictures, folder / "pictures")
    row = {"update": 1, "source": f"{folder.parent}/data/image/8.png", "references": ["a"], "output": "b"}
    (Path(path) / "samples.jsonl").write_text(json.dumps(row) + "\n")
    return folder


@pytest.fixture(scope="module")
def runs(root: Path) -> Iterator[RunningServer]:
    with serving(root, options=["--loaded", "1", "--threads", "1", "--wait", "60"]) as running:
        yield running


def get(server: RunningServer, path: str, **values: str | int) -> Any:  # noqa: ANN401 (JSON)
    answer = server.client.get(path, params=values)
    assert answer.status_code == 200, answer.text
    return answer.json()


def listed(server: RunningServer) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in get(server, "/v1/runs")["runs"]}


def until(happened: Callable[[], Any]) -> Any:  # noqa: ANN401 (whatever is waited for)
    end = time.monotonic() + WAITS
    while not (found := happened()):
        assert time.monotonic() < end
        time.sleep(0.2)
    return found


def opened(server: RunningServer, name: str) -> dict[str, Any]:
    answer = server.client.post("/v1/run/open", json={"name": name})
    assert answer.status_code == 200, answer.text
    facts: dict[str, Any] = answer.json()
    return facts


def test_the_runs_below_the_folder_are_listed_and_no_others(runs: RunningServer) -> None:
    rows = listed(runs)
    assert rows.keys() == {"group/one", "two", "begun", "pictures"}
    assert [rows[name]["usable"] for name in ("group/one", "two", "begun")] == [True, True, False]
    assert {row["state"] for row in rows.values()} == {"stopped"}
    log = get(runs, "/v1/run/log", name="begun", after=0)
    assert log["rows"] == [{"update": 1, "loss": 2.5}]
    assert get(runs, "/v1/run/log", name="begun", after=log["next"])["rows"] == []


def test_a_log_that_has_become_shorter_is_read_again(runs: RunningServer, root: Path) -> None:
    path = root / "begun" / "log.jsonl"
    before = path.read_text()
    log = get(runs, "/v1/run/log", name="begun", after=0)
    path.write_text('{"update": 1, "loss": 3.0}\n')
    again = get(runs, "/v1/run/log", name="begun", after=log["next"])
    assert (again["rows"], again["next"] < log["next"]) == ([{"update": 1, "loss": 3.0}], True)
    path.unlink()
    assert get(runs, "/v1/run/log", name="begun", after=again["next"])["next"] == 0
    path.write_text(before)


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../outside/secret",
        "link",
        "link/secret",
        "group/../two",
        "./two",
        "planted",
        "two/",
        "1/2/3/4/deep",
        "%2e%2e",
        "two\0",
        ".",
    ],
)
def test_no_name_leads_elsewhere(runs: RunningServer, root: Path, name: str) -> None:
    for hostile in (name, name.replace("/", "%2f"), f"{root}/{name}", str(root / "link" / "secret")):
        asked = [runs.client.get(path, params={"name": hostile}) for path in ("/v1/run", "/v1/run/log")]
        asked.append(runs.client.get("/v1/runs/compare", params={"one": "two", "other": hostile}))
        asked.append(runs.client.post("/v1/run/open", json={"name": hostile}))
        asked.append(runs.client.post("/v1/generate", json={"inputs": "a", "model": hostile}))
        assert [answer.status_code for answer in asked] == [404] * 5
        assert str(root) in hostile or all(str(root) not in answer.text for answer in asked)


def test_a_run_is_loaded_when_it_is_asked_and_the_other_ends(runs: RunningServer) -> None:
    body = {"inputs": "a b c"}
    assert runs.client.post("/v1/generate", json={**body, "model": "group/one"}).json()["model"] == "group/one"
    [first] = runs.workers
    assert runs.client.post("/v1/generate", json={**body, "model": "two"}).status_code == 200
    until(lambda: len(runs.workers) == 1 and first not in runs.workers)
    models = [model["name"] for model in runs.client.get("/info").json()["models"]]
    assert models == ["two"]
    missing = runs.client.post("/v1/generate", json=body)
    assert (missing.status_code, "give one of" in missing.text) == (422, True)
    begun = runs.client.post("/v1/generate", json={**body, "model": "begun"})
    assert (begun.status_code, begun.json()["error"]["code"]) == (503, "no_weights")


def test_better_weights_are_loaded(runs: RunningServer, root: Path) -> None:
    before, answer = opened(runs, "two"), runs.client.post("/v1/score", json=SCORED).json()
    assert opened(runs, "two")["sha256"] == before["sha256"]
    made = tiny_generator("transformer")
    fill(made.model, scale=0.3)
    save_model(root / "two", made.config, made.model.state_dict(), made.source_tokenizer, made.target_tokenizer, 7)
    assert opened(runs, "two")["sha256"] != before["sha256"]
    after = runs.client.post("/v1/score", json=SCORED).json()
    assert after["outputs"] != answer["outputs"]
    assert (answer["update"], after["update"]) == (None, 7)


@pytest.mark.parametrize(
    ("most", "metrics", "updates"),
    [
        (None, [{"update": 50.0, "epoch": 2.5}], 400),
        (300, [{"update": 50.0, "epoch": 2.5}], 300),
        (900, [{"update": 50.0, "epoch": 2.5}], 400),
        (300, [], 300),
        (None, [], None),
    ],
)
def test_the_updates_of_a_training_are_planned(
    most: int | None, metrics: list[dict[str, float]], updates: int | None
) -> None:
    config = Config.model_validate({"data": {"train": "pairs.tsv"}, "training": {"epochs": 20, "max_updates": most}})
    assert planned_updates(RunRecord(Path(), metrics=metrics), config) == updates


SCORED = {"inputs": "a b c", "targets": "K L", "model": "two"}


def test_the_facts_of_a_run_have_no_path(runs: RunningServer, root: Path) -> None:
    two, pictures = (runs.client.get("/v1/run", params={"name": name}) for name in ("two", "pictures"))
    assert "bahdanau" not in two.json()["config"]
    assert str(root.parent) not in two.text + pictures.text
    assert [sample["source"] for sample in pictures.json()["samples"]] == ["8.png"]
    differences = get(runs, "/v1/runs/compare", one="group/one", other="two")["differences"]
    kinds = {row["key"]: (row["one"], row["other"]) for row in differences}
    assert kinds["model.encoder.kind"] == ("gru", "transformer")
    assert get(runs, "/v1/runs/compare", one="two", other="begun")["differences"] == []


def test_a_training_is_followed_and_asked(runs: RunningServer, root: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-c", TRAINING, str(root / "live")], env=environment) as process:
        try:
            row = until(lambda: (one := listed(runs).get("live")) and one["usable"] and one)
            assert row["state"] == "training"
            first = until(lambda: (log := get(runs, "/v1/run/log", name="live", after=0))["rows"] and log)
            more = until(lambda: (log := get(runs, "/v1/run/log", name="live", after=first["next"]))["rows"] and log)
            assert more["state"] == "training"
            assert more["rows"][0]["update"] > first["rows"][-1]["update"]
            answer = runs.client.post("/v1/generate", json={"inputs": "a b", "model": "live"})
            assert answer.status_code == 200, answer.text
            until(lambda: listed(runs)["live"]["update"] > row["update"])
            assert answer.json()["update"] % 50 == 0  # of an evaluation
            [weights] = until(lambda: (found := opened(runs, "live")["weights"])[0]["updates"] and found)
            assert not weights["ended"]
            assert weights["updates"] % 1_000_000 == 0  # epochs
            assert 0 < weights["update"] < weights["updates"]
        finally:
            process.kill()
    assert listed(runs)["live"]["state"] == "stopped"
