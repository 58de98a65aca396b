"""Whole runs as Python starts them: examples in memory, what is shown, callbacks and trackers."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tiny_generators import tiny_folder
from tiny_runs import BASE, WORDS, Ran, same
from tiny_runs import Watch as Silent

import antiphon
from antiphon.config.load import read_config
from antiphon.errors import Interrupted, MissingExtraError, UserError
from antiphon.training import callbacks
from antiphon.training.callbacks import Callback, DisplayWithCallbacks
from antiphon.training.display import DevSample, Display

pytestmark = pytest.mark.usefixtures("no_pictures")
PAIRS = [(word, word[::-1]) for word in WORDS]


def config(train: Any = PAIRS, **training: Any) -> dict[str, Any]:  # noqa: ANN401
    return {**BASE, "data": {**BASE["data"], "train": train}, "training": {**BASE["training"], **training}}


def weights(run: Path) -> dict[str, torch.Tensor]:
    return Ran(run, Silent(), read_config(run / "config.yaml")).weights


class Recorder(Callback):
    """Writes down its calls, and raises an error at one of them; draws random numbers, which must not matter."""

    def __init__(self, fails: str = "", error: type[BaseException] = ZeroDivisionError) -> None:
        self.fails, self.error = fails, error
        self.calls: list[tuple[str, Any]] = []

    def on_update(self, row: dict[str, float]) -> None:
        self._note("update", row)
        row.clear()

    def on_evaluation(self, row: dict[str, float], samples: Sequence[DevSample]) -> None:
        self._note("evaluation", (row.copy(), len(samples)))
        row.clear()

    def on_end(self, outcome: dict[str, Any]) -> None:
        self._note("end", outcome)

    def _note(self, name: str, value: Any) -> None:  # noqa: ANN401
        torch.rand(3)
        self.calls.append((name, value if not isinstance(value, dict) else dict(value)))
        if name == self.fails:
            raise self.error("on purpose")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a dict with a list of pairs, with dropout: random numbers are drawn in every update."""
    return antiphon.train(with_dropout(), tmp_path_factory.mktemp("runs") / "run", display=None)


def with_dropout(**training: Any) -> dict[str, Any]:  # noqa: ANN401
    values = config(**training)
    encoder = {**values["model"]["encoder"], "dropout": 0.3}
    return {**values, "model": {**values["model"], "encoder": encoder}}


def test_a_list_a_table_and_a_keyword_give_the_run_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps({"0": left, "1": right}) + "\n" for left, right in PAIRS))
    short = {"max_updates": 2}
    frame = pd.DataFrame(PAIRS, columns=["word", "answer"])
    runs = [
        antiphon.train(config(str(file), **short), tmp_path / "1", display=None),
        antiphon.train(config(**short), tmp_path / "2", display=None),
        antiphon.train(config("other.tsv", **short), tmp_path / "3", data=frame, display=None),
        antiphon.train(config(file, **short), tmp_path / "4", ["training.epochs=1"], data=file, display=None),
    ]
    assert all(same(weights(runs[0]), weights(run)) for run in runs[1:])
    stored = [str(read_config(run / "config.yaml").data.train) for run in runs[1:3]]
    assert stored[0] == stored[1]
    assert Path(stored[0]).read_bytes() == file.read_bytes(), "the run folder names where the data are"


def test_data_takes_the_place_of_both_files(tmp_path: Path) -> None:
    values = config("gone.tsv", max_updates=1)
    values["data"]["dev"] = "gone-dev.tsv"
    held_out = antiphon.train(values, tmp_path / "1", data=PAIRS, display=None)
    assert read_config(held_out / "config.yaml").data.dev is None
    given = antiphon.train(values, tmp_path / "2", data=PAIRS, dev=PAIRS[:5], display=None)
    assert Path(str(read_config(given / "config.yaml").data.dev)).read_text().count("\n") == 5


def test_a_run_of_examples_in_memory_resumes_to_equal_weights(plain: Path, tmp_path: Path) -> None:
    half = antiphon.train(with_dropout(max_updates=4), tmp_path / "run", display=None)
    longer = antiphon.train(with_dropout(), half, display=None, callbacks=[Recorder()])
    assert same(weights(plain), weights(longer))


def test_init_makes_a_config_to_train_with(tmp_path: Path) -> None:
    chosen = antiphon.init([(f"{word}-", word) for word in WORDS]).config
    short = chosen.training.model_copy(update={"max_updates": 1})
    run = antiphon.train(chosen.model_copy(update={"training": short}), tmp_path / "run", display=None)
    assert antiphon.evaluate(run, [("ab-", "ab")], beam=1).examples == 1


def test_evaluate_score_and_explain_take_a_path_or_a_model(plain: Path, tmp_path: Path) -> None:
    model, frame = antiphon.load(plain), pd.DataFrame(PAIRS[:4], columns=["left", "right"])
    by_path = antiphon.evaluate(plain, PAIRS[:4], metrics=["cer"], beam=1)
    assert by_path.values == antiphon.evaluate(model, frame, metrics=["cer"], beam=1).values
    scores = antiphon.score(plain, [*PAIRS[:2], ("a", "")])
    assert [found.log_prob for found in scores.targets] == [found.log_prob for found in model.score(PAIRS[:2])]
    assert (scores.lines, scores.dropped["reasons"]) == ([1, 2], {"empty target": 1})
    assert antiphon.explain(plain, "ab", tmp_path / "a.png").text == model.generate("ab").text
    with pytest.raises(UserError, match="not one line can be used"):
        antiphon.score(model, [("a", "")])


def test_positions_and_maps_take_a_path_or_a_model(plain: Path, tmp_path: Path) -> None:
    model, sentences = antiphon.load(plain), ["ab", "ba", "cd"]
    by_path = antiphon.map_sentences(plain, sentences, tmp_path / "map.png")
    by_model = antiphon.map_sentences(model, sentences)
    assert by_path.plane.points.tolist() == by_model.plane.points.tolist()
    assert (tmp_path / "map.png").is_file()
    transformer = tiny_folder("transformer", tmp_path / "transformer")
    by_path, by_model = (
        antiphon.positions(run, tmp_path / "p.png") for run in (transformer, antiphon.load(transformer))
    )
    assert list(by_path) == list(by_model) == ["sinusoidal positions, encoder and decoder"]
    assert (tmp_path / "p.png").is_file()
    with pytest.raises(UserError, match="there is none to draw"):
        antiphon.positions(str(plain), tmp_path / "none.png")


def test_wrong_arguments_of_positions_and_maps_get_a_sentence_each(plain: Path) -> None:
    with pytest.raises(UserError) as caught:
        antiphon.positions(3, None)  # type: ignore[arg-type]
    assert caught.value.problems == [
        "run: a value of type int is given; give the folder of a run, or what antiphon.load returned",
        "out: a value of type NoneType is given; give a file name",
    ]
    with pytest.raises(UserError) as caught:
        antiphon.map_sentences([plain], "ab", 3, pool="median", title=5)  # type: ignore[arg-type]
    assert caught.value.problems == [
        "run: a value of type list is given; give the folder of a run, or what antiphon.load returned",
        "sentences: a value of type str is given; give a list of texts (of a Series: .tolist())",
        "out: a value of type int is given; give a file name",
        "pool: 'median'; choose last, mean, max, or None",
        "title: a value of type int is given; give a text",
    ]
    with pytest.raises(UserError, match=r"sentences\[1\]: a value of type float is given; give a text"):
        antiphon.map_sentences(plain, ["a", float("nan")])  # type: ignore[list-item]


def test_a_dialogue_keeps_its_turns_with_the_model(tmp_path: Path) -> None:
    """An older run learns them, too, when `data.turns` is added: no update depends on it."""
    talk = [(f"{left}|{right}" if place % 3 else left, right) for place, (left, right) in enumerate(PAIRS)]
    values = config(talk, max_updates=2)
    old = antiphon.train(values, tmp_path / "run", display=None)
    assert antiphon.chat(old).generator.turns.most == 1
    values["data"]["turns"] = "|"
    run = antiphon.train(values, old, display=None)
    conversation = antiphon.chat(run, beam=2)
    first = conversation.say("ab")
    assert conversation.say("ba").spans[0].text == f"{first.text}|ba"
    assert antiphon.chat(antiphon.load(run)).generator.turns == conversation.generator.turns
    exported = antiphon.export_model(run, "onnx", tmp_path / "onnx")
    assert antiphon.chat(exported).generator.turns == conversation.generator.turns
    both = antiphon.load([run, run])
    assert antiphon.chat(both, beam=2).say("ab").text == first.text


def test_a_broken_dict_is_checked_as_a_file_is(tmp_path: Path) -> None:
    assert antiphon.check(config(max_updates=1)).problems == []
    report = antiphon.check(config(epochs="many"))
    assert [problem.partition(":")[0] for problem in report.problems] == ["training.epochs"]
    assert list(tmp_path.iterdir()) == []


def test_callbacks_are_told_and_change_nothing(plain: Path, tmp_path: Path) -> None:
    recorder = Recorder()
    run = antiphon.train(with_dropout(), tmp_path / "run", display=None, callbacks=[recorder])
    assert same(weights(plain), weights(run))
    updates = [value["update"] for name, value in recorder.calls if name == "update"]
    assert updates == list(range(1, len(updates) + 1))
    evaluations = [value for name, value in recorder.calls if name == "evaluation"]
    assert len(evaluations) == 2
    assert {"update", "epoch", "train_loss", "dev_loss", "exact_match"} <= evaluations[0][0].keys()
    assert evaluations[0][1] == 3, "samples"
    assert recorder.calls[-1] == ("end", json.loads((run / "summary.json").read_text()))
    assert [name for name, _ in recorder.calls].count("end") == 1
    finished = Recorder()
    antiphon.train(with_dropout(), run, display=None, callbacks=[finished])
    assert finished.calls == [], "nothing was trained"


@pytest.mark.parametrize("fails", ["update", "evaluation", "end"])
def test_a_callback_that_fails_is_named_once(fails: str, plain: Path, tmp_path: Path) -> None:
    watch, failing, other = Silent(), Recorder(fails), Recorder()
    run = antiphon.train(with_dropout(), tmp_path / "run", display=watch, callbacks=[failing, other])
    assert same(weights(plain), weights(run))
    said = [message for message in watch.said if "the callback" in message]
    assert said == [
        "warning: the callback Recorder raised ZeroDivisionError: on purpose; it is not called again, and the training "
        "goes on"
    ]
    assert [name for name, _ in failing.calls].count(fails) == 1
    assert [name for name, _ in other.calls].count("end") == 1


@pytest.mark.parametrize("fails", ["update", "evaluation"])
def test_a_callback_stops_the_training_as_ctrl_c_does(fails: str, plain: Path, tmp_path: Path) -> None:
    stopping = Recorder(fails, KeyboardInterrupt)
    with pytest.raises(Interrupted, match="stopped and saved") as caught:
        antiphon.train(with_dropout(), tmp_path / "run", display=None, callbacks=[stopping])
    assert caught.value.exit_code == 130
    assert stopping.calls[-1][0] == "end"
    assert stopping.calls[-1][1]["stopped"] == "interrupted"
    run = antiphon.train(with_dropout(), tmp_path / "run", display=None)
    assert same(weights(plain), weights(run))


# Shown in Python.


def test_progress_is_shown_unless_display_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = [*PAIRS, ("ab", "")]
    antiphon.train(config(twice, max_updates=1), tmp_path / "1")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "evaluation at update 1 " in shown.err
    assert "warning: " in shown.err, "a line was left out"
    antiphon.train(config(twice, max_updates=1), tmp_path / "2", display=None)
    assert capsys.readouterr() == ("", "")
    antiphon.train(config(twice, max_updates=1), tmp_path / "3", display="terminal")
    assert "★" in capsys.readouterr().err


class Calls(Display):
    """Writes down the names of its calls; `log` is not of interest."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def update(self, row: dict[str, float], total: int) -> None:  # noqa: ARG002
        self.names.append("update")

    def evaluating(self) -> None:
        self.names.append("evaluating")

    def evaluation(self, row: Any, metrics: Any, best: bool, samples: Any) -> None:  # noqa: ANN401, ARG002
        self.names.append("evaluation")

    def close(self) -> None:
        self.names.append("close")


def test_a_display_is_told_when_an_evaluation_begins_and_ends(tmp_path: Path) -> None:
    """That of the averaged weights, which is the last, has no row of its own."""
    shown = Calls()
    antiphon.train(config(max_updates=4, evaluate_every=2, average=2), tmp_path / "run", display=shown)
    once = ["update", "update", "evaluating", "evaluation"]
    assert shown.names == [*once, *once, "evaluating", "close"]


@pytest.mark.parametrize("metric", ["exact_match", "loss"])
def test_samples_are_drawn_from_all_of_dev(metric: str, tmp_path: Path) -> None:
    shown: list[DevSample] = []

    class Samples(Callback):
        def on_evaluation(self, row: dict[str, float], samples: list[DevSample]) -> None:  # noqa: ARG002
            shown.extend(samples)

    values = {**config(max_updates=1), "evaluation": {"metrics": [metric]}}
    antiphon.train(values, tmp_path / "run", dev=PAIRS[:9], display=None, callbacks=[Samples()])
    assert [(sample.source, sample.references) for sample in shown] == [
        (PAIRS[row][0], (PAIRS[row][1],)) for row in (0, 3, 6)
    ]


def test_callbacks_leave_no_call_of_a_display_out() -> None:
    calls = {name for name in vars(Display) if not name.startswith("_")}
    assert calls <= vars(DisplayWithCallbacks).keys()


# Trackers, with the real packages.


def read_tensorboard(folder: Path) -> dict[str, list[int]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    tags = events.Tags()
    assert tags["tensors"] == ["samples/text_summary"]
    [text] = events.Tensors("samples/text_summary")[-1].tensor_proto.string_val
    assert text.decode().count(" (right: ") == text.decode().count("✗") > 0
    return {name: [event.step for event in events.Scalars(name)] for name in tags["scalars"]}


def read_mlflow(folder: Path) -> dict[str, list[int]]:
    from mlflow import MlflowClient

    client = MlflowClient((folder / "mlflow").resolve().as_uri())
    experiment = client.get_experiment_by_name("antiphon")
    assert experiment is not None
    [run] = client.search_runs([experiment.experiment_id])
    assert run.data.params["model.encoder.size"] == "8"
    assert (run.info.status, run.data.tags["weights"]) == ("FINISHED", "best")
    return {
        name: [metric.step for metric in client.get_metric_history(run.info.run_id, name)] for name in run.data.metrics
    }


def read_wandb(folder: Path) -> dict[str, list[int]]:
    """The history; another process writes it, and ends a moment after the run."""
    [path] = (folder / "wandb").glob("offline-run-*/*.wandb")
    for _ in range(600):
        if any(record.WhichOneof("record_type") == "exit" for record in wandb_records(path.read_bytes())):
            break
        time.sleep(0.1)
    found = dict[str, list[int]]()
    for record in wandb_records(path.read_bytes()):
        for item in record.history.item:
            found.setdefault("/".join(item.nested_key) or item.key, []).append(record.history.step.num)
    return found


def wandb_records(content: bytes) -> Iterator[Any]:
    """Those of a LevelDB log: seven bytes, then records with checksum, length and kind, in blocks of 32 KiB."""
    from wandb.proto.wandb_internal_pb2 import Record

    place, whole = 7, b""
    while place + 7 <= len(content):
        if 2**15 - place % 2**15 < 7:
            place += 2**15 - place % 2**15
            continue
        length, kind = struct.unpack_from("<HB", content, place + 4)
        if place + 7 + length > len(content):  # not all of it is written yet
            return
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the end of one
            yield Record.FromString(whole)
            whole = b""


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
@pytest.mark.filterwarnings("default")  # of other packages
def test_a_tracker_writes_the_figures_into_the_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("WANDB_MODE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)
    run = antiphon.train(config(max_updates=3, evaluate_every=2, track=[name]), tmp_path / "run", display=None)
    read = {"tensorboard": read_tensorboard, "mlflow": read_mlflow, "wandb": read_wandb}[name]
    steps = read(run / "track")
    assert steps["training/loss"] == [1, 2, 3]
    assert steps["evaluation/dev_loss"] == steps["evaluation/exact_match"] == [2, 3]
    antiphon.train(config(max_updates=1), run, display=None, fresh=True)
    assert not (run / "track").exists(), "--fresh deletes what the old run wrote"


def test_track_may_change_in_a_run_that_has_begun(plain: Path, tmp_path: Path) -> None:
    half = antiphon.train(with_dropout(max_updates=4), tmp_path / "run", display=None)
    longer = antiphon.train(with_dropout(track=["tensorboard"]), half, display=None)
    assert same(weights(plain), weights(longer))
    assert read_tensorboard(longer / "track")["training/loss"][0] == 5


def test_the_extra_of_a_missing_tracker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "find_spec", lambda name: None if name == "wandb" else PathFinder.find_spec(name))
    with pytest.raises(MissingExtraError) as caught:
        antiphon.train(config(track=["wandb", "tensorboard"]), tmp_path / "run", display=None)
    said = "training.track: wandb is not installed; pip install 'antiphon[wandb]' installs it"
    assert caught.value.problems == [said]
    assert antiphon.check(config(track=["wandb"])).problems == [said]
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_cannot_start_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(callbacks.TRACKERS, "wandb", ("wandb", Recorder))  # which takes other arguments
    with pytest.raises(UserError, match=r"training.track: wandb cannot be opened .*; repair it, or take wandb out of"):
        antiphon.train(config(track=["wandb"]), tmp_path / "run", display=None)
