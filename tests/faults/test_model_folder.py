"""A model folder with something wrong: the file, the fact, the remedy; and never a traceback."""

from __future__ import annotations

import errno
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from fault_runs import Baseline

from antiphon.cli.main import run as command
from antiphon.errors import ModelFolderError
from antiphon.files import sha256
from antiphon.model_folder import is_intact, load_model, load_weights, save_weights, weights_update

FILES = ["config.yaml", "model.json", "model.safetensors", "tokenizer.source.json", "tokenizer.target.json"]


@pytest.fixture
def model(baseline: Baseline, tmp_path: Path) -> Path:
    """Only what a model needs: that is enough."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name in FILES:
        shutil.copy(baseline.run / name, folder)
    assert load_model(folder).model.parameter_count == 7562
    return folder


def problem(folder: Path) -> str:
    with pytest.raises(ModelFolderError) as caught:
        load_model(folder)
    return "\n".join(caught.value.problems)


def bless(folder: Path) -> None:
    """The manifest is made to agree with the files, as if they had been written so."""
    manifest = json.loads((folder / "model.json").read_bytes())
    manifest["files"] = {name: [sha256(folder / name)] for name in manifest["files"]}
    (folder / "model.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_missing(model: Path, name: str) -> None:
    (model / name).unlink()
    assert f"{model}: not a whole model folder, {name} missing; copy the folder again" in problem(model)


def test_several_are_missing(model: Path) -> None:
    for name in FILES[1:3]:
        (model / name).unlink()
    assert "model.json, model.safetensors missing" in problem(model)


def test_no_folder(tmp_path: Path) -> None:
    assert "nowhere: no such folder; `antiphon train" in problem(tmp_path / "nowhere")


@pytest.mark.parametrize("name", FILES[2:])
def test_a_flipped_bit(model: Path, name: str) -> None:
    content = bytearray((model / name).read_bytes())
    content[len(content) // 2] ^= 1
    (model / name).write_bytes(content)
    assert f"{model / name}: damaged, its checksum is not the one in model.json; copy it again" in problem(model)


def test_every_damaged_file_is_named(model: Path) -> None:
    for name in FILES[2:]:
        with (model / name).open("ab") as file:
            file.write(b" ")
    assert [line.split(": damaged")[0] for line in problem(model).split("\n")] == [str(model / n) for n in FILES[2:]]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"format": 1}', b'{"format": 1, "files": 3}', b"\xff"]
)
def test_a_damaged_manifest(model: Path, content: bytes) -> None:
    (model / "model.json").write_bytes(content)
    assert f"{model / 'model.json'}: damaged; copy the model folder again" in problem(model)


def test_a_newer_format(model: Path) -> None:
    manifest = json.loads((model / "model.json").read_bytes())
    (model / "model.json").write_text(json.dumps({**manifest, "format": 7}))
    assert "model.json: format 7, this version reads 1 to 2; update antiphon" in problem(model)


@pytest.mark.parametrize("content", [b"", b"\x00" * 64, b"PK\x03\x04 a pickle of torch.save"])
def test_weights_of_another_format(model: Path, content: bytes) -> None:
    (model / "model.safetensors").write_bytes(content)
    bless(model)
    assert f"{model / 'model.safetensors'}: not a safetensors file" in problem(model)


@pytest.mark.parametrize("content", ["{}", "[]", '{"format": 9}', '{"format": 1, "kind": "runes"}'])
def test_a_tokenizer_of_another_format(model: Path, content: str) -> None:
    (model / "tokenizer.source.json").write_text(content)
    bless(model)
    assert str(model / "tokenizer.source.json") in problem(model)


def test_weights_of_other_shapes(model: Path) -> None:
    text = (model / "config.yaml").read_text("utf-8")
    changed = re.sub(r"(decoder:.*?size: )12", r"\g<1>20", text, count=1, flags=re.DOTALL)
    assert changed != text
    (model / "config.yaml").write_text(changed)
    said = problem(model)
    assert f"{model / 'model.safetensors'}: " in said
    assert "config.yaml expects [" in said


def test_weights_that_lack_a_tensor(model: Path) -> None:
    weights = load_weights(model)
    lost = sorted(weights)[0]
    save_weights(model, {name: tensor for name, tensor in weights.items() if name != lost} | {"more": torch.ones(3)})
    said = problem(model)
    assert f"{lost} is missing" in said
    assert "more is [3], config.yaml expects none" in said


def test_a_config_that_is_not_one(model: Path) -> None:
    (model / "config.yaml").write_text("data: {train: a}\nmodel: {encoder: {kind: abacus}}\ntraining: {epoch: 3}\n")
    said = problem(model).split("\n")
    assert len(said) == 2
    assert all(line.startswith(f"{model / 'config.yaml'}: ") for line in said)
    assert "training.epoch: 'training' has no such key" in said[1]
    (model / "config.yaml").write_text("data: [\n")
    assert problem(model).count(str(model / "config.yaml")) == 1


@pytest.mark.parametrize("name", FILES[1:])
def test_a_file_that_may_not_be_read(model: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Root may read everything, so the refusal is made here."""
    really = Path.open

    def refuse(path: Path, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - passes on what it gets
        if path == model / name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return really(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", refuse)
    assert problem(model) == f"{model / name}: cannot be read (Permission denied); check its permissions"


def test_a_model_that_is_being_replaced_still_loads(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training writes new weights after the reader has read the manifest and before it reads the file."""
    from antiphon import model_folder as module

    really, new = module.sha256, {name: tensor + 1.0 for name, tensor in load_weights(model).items()}
    replaced = []

    def late(path: Path) -> str:
        if path.name == "model.safetensors" and not replaced:
            replaced.append(path)
            save_weights(model, new)
        return really(path)

    monkeypatch.setattr(module, "sha256", late)
    loaded = load_model(model).model.state_dict()
    assert replaced
    assert all(loaded[name].equal(new[name]) for name in new)


def test_a_kill_between_the_two_writes_leaves_a_whole_folder(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from antiphon import model_folder as module

    old = (model / "model.safetensors").read_bytes()
    before = weights_update(model, sha256(model / "model.safetensors"))

    def killed(path: Path, content: bytes) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "write_bytes", killed)
    with pytest.raises(KeyboardInterrupt):
        save_weights(model, {name: tensor + 1.0 for name, tensor in load_weights(model).items()})
    assert (model / "model.safetensors").read_bytes() == old
    assert is_intact(model)
    assert weights_update(model, sha256(model / "model.safetensors")) == before


def test_the_folder_says_from_which_update_its_weights_are(model: Path) -> None:
    def update() -> int | None:
        return weights_update(model, sha256(model / "model.safetensors"))

    weights = load_weights(model)
    for given in (340, None):
        save_weights(model, {name: tensor + 1.0 for name, tensor in weights.items()}, given)
        assert update() == given
    (model / "model.json").write_text("{}")
    assert update() is None


@pytest.mark.parametrize("verb", ["generate", "explain", "evaluate", "score"])
def test_the_commands_say_it(model: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    (model / "model.safetensors").unlink()
    assert command([verb, str(model), "abc"]) == 2
    assert "antiphon: " in (said := capsys.readouterr().err)
    assert "model.safetensors missing" in said
    assert "Traceback" not in said
