"""antiphon export: a folder that the other commands take as they take a run."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path

import pytest
from tiny_generators import tiny_folder

from antiphon.cli.export import ExportEngine
from antiphon.cli.io import program
from antiphon.export.base import TARGETS
from antiphon.inference.flags import FlagLimits
from antiphon.model_folder import open_model

LIMITS = FlagLimits((9, 10, 11, 12, 15, 18))
STDIN = b"a b c\nh\n\nd e f g\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tiny_folder("transformer", tmp_path_factory.mktemp("runs") / "run")
    LIMITS.save(Path(folder))
    return folder


def test_the_engines_of_the_help_are_those_there_are() -> None:
    assert [engine.value for engine in ExportEngine] == list(TARGETS)


def test_an_extra_installs_what_an_engine_needs() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    for target in TARGETS.values():
        extra = project["optional-dependencies"][target.extra] if target.extra else []
        assert {requirement.split(">")[0] for requirement in extra} == set(target.needs)


@pytest.mark.parametrize("flags", [[], ["--int8"]])
def test_export_and_then_the_other_commands(antiphon, run: str, flags: list[str], tmp_path: Path) -> None:  # noqa: ANN001
    out = tmp_path / "an export"
    ended = antiphon("export", run, "--to", "ctranslate2", "--out", str(out), *flags)
    assert (ended.code, ended.out) == (0, "")
    first, note, last = ended.err.split("\n")[:-1]
    bits = ", with weights of 8 bits" if flags else ""
    assert first == f"antiphon: writing {run} for ctranslate2{bits}"
    assert "a run with patience 1 does the same" in note
    assert last.startswith(f"antiphon: wrote {out} (0.")
    assert last.endswith(f"; next: {program()} generate {shlex.quote(str(out))} FILE")
    assert open_model(out).flag_limits == LIMITS
    answers = [antiphon("generate", folder, stdin=STDIN) for folder in (run, str(out))]
    assert [answer.code for answer in answers] == [0, 0]
    assert len(answers[1].lines) == 4
    if not flags:
        assert answers[1].out == answers[0].out
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b\tK L\nc\tM\n")
    assert len(antiphon("score", str(out), str(pairs)).lines) == 2
    report = antiphon("evaluate", str(out), str(pairs), "--json")
    assert report.code == 0
    assert json.loads(report.out)
    refused = antiphon("generate", str(out), "--json", "--weights", stdin=STDIN)
    assert (refused.code, refused.out) == (2, "")
    assert "--weights: ctranslate2 returns no attention; use the run" in refused.err
    drawn = antiphon("explain", str(out), "a b", "--out", str(tmp_path / "picture.png"))
    assert drawn.code == 2
    assert "use the run that the export was made from" in drawn.err


def folder_of(folder: Path, files: dict[str, str]) -> str:
    """Nothing but the table of an export."""
    folder.mkdir()
    (folder / "export.json").write_text(json.dumps({"format": 1, "engine": "onnx", "facts": {}, "files": files}))
    return str(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a/../../secret"])
def test_files_outside_the_folder_are_not_read(antiphon, tmp_path: Path, name: str) -> None:  # noqa: ANN001
    (tmp_path / "secret").write_text("secret")
    ended = antiphon("generate", folder_of(tmp_path / "exported", {name: "0" * 64}), stdin=b"a\n")
    assert ended.code == 2
    assert "export.json: damaged; export the model again" in ended.err


def test_mistakes_are_sentences(antiphon, run: str, tmp_path: Path) -> None:  # noqa: ANN001
    recurrent = tiny_folder("bahdanau", tmp_path / "gru")
    there = tmp_path / "there"
    there.mkdir()
    exported = folder_of(tmp_path / "exported", files={})
    for arguments, sentence in (
        ([run, "--to", "tensorflow", "--out", "x"], "Invalid value for '--to'"),
        ([run, "--to", "onnx"], "Missing option '--out'"),
        ([str(tmp_path / "no"), "--to", "ctranslate2", "--out", str(tmp_path / "x")], "no such folder"),
        ([run, "--to", "ctranslate2", "--out", str(there)], "already exists; choose another --out"),
        ([run, "--to", "onnx", "--out", str(tmp_path / "x"), "--int8"], "int8: an export to onnx has weights of 32"),
        ([exported, "--to", "onnx", "--out", str(tmp_path / "x")], "an export already, to onnx; give the run"),
        ([recurrent, "--to", "ctranslate2", "--out", str(tmp_path / "x")], "export it with --to onnx"),
    ):
        ended = antiphon("export", *arguments)
        assert (ended.code, ended.out) == (2, "")
        assert sentence in ended.err
        assert "Traceback" not in ended.err
        assert not (tmp_path / "x").exists()
