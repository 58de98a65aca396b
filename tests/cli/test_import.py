"""`antiphon import`: a folder of `transformers` becomes a model that the other commands take, or is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from foreign_models import bart, marian, sentences
from safetensors.torch import load_file, save_file

from antiphon.api import load
from antiphon.cli.main import run
from antiphon.cli.train import NOTHING_LEARNT

FINE_TUNING = """\
data:
  train: PAIRS
  dev: PAIRS
  source: {tokens: unigram, tokenizer: MODEL, max_length: 63}
  target: {tokens: unigram, tokenizer: MODEL, max_length: 63, column: 1}
  shared_vocabulary: true
model:
  encoder:
    {kind: transformer, size: 16, layers: 2, heads: 2, feedforward: 20, order: post, activation: swish, from: MODEL}
  decoder:
    {kind: transformer, size: 16, layers: 1, heads: 4, feedforward: 24, order: post, activation: swish, from: MODEL}
  tie: all
training: {epochs: 1, max_updates: 2, schedule: {warmup: 0}, learning_rate: 1.0e-9, batch_tokens: 256}
decoding: {beam: 1, max_length: 10}
"""


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("there") / "opus"
    marian(folder)
    return folder


@pytest.fixture(scope="module")
def imported(opus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("here") / "model"
    assert run(["import", str(opus), "--out", str(folder)]) == 0
    return folder


def copied(opus: Path, folder: Path) -> Path:
    """The same files, to be spoilt."""
    folder.mkdir()
    for path in opus.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_the_other_commands_take_it(antiphon, imported: Path, tmp_path: Path) -> None:  # noqa: ANN001
    (tmp_path / "in.txt").write_text("ka mi tor.\n")
    (tmp_path / "pairs.tsv").write_text("ka mi tor.\tbe lin.\n")
    for command in (
        ["generate", str(imported), str(tmp_path / "in.txt"), "--max-length", "5"],
        ["score", str(imported), str(tmp_path / "pairs.tsv")],
        ["evaluate", str(imported), str(tmp_path / "pairs.tsv"), "--beam", "1"],
        ["explain", str(imported), "ka mi", "--out", str(tmp_path / "look.png")],
    ):
        ended = antiphon(*command)
        assert ended.code == 0, ended.err
    assert "sacremoses" in (imported / "card.md").read_text()


@pytest.mark.usefixtures("no_pictures")
def test_it_can_be_trained_on(antiphon, imported: Path, tmp_path: Path) -> None:  # noqa: ANN001
    """With next to no learning rate the answers stay; each side keeps its own sentencepiece model."""
    rows = zip(sentences("source", 3, 30), sentences("target", 3, 30), strict=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    config = FINE_TUNING.replace("PAIRS", str(tmp_path / "pairs.tsv")).replace("MODEL", str(imported))
    (tmp_path / "config.yaml").write_text(config)
    ended = antiphon("train", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "run"))
    assert ended.code == NOTHING_LEARNT, ended.err
    before, after = load(imported), load(tmp_path / "run")
    assert before.source_tokenizer.fingerprint == after.source_tokenizer.fingerprint
    assert before.target_tokenizer.fingerprint == after.target_tokenizer.fingerprint
    assert before.source_tokenizer.fingerprint != before.target_tokenizer.fingerprint
    weights = before.model.state_dict()
    assert all(torch.allclose(tensor, weights[name], atol=1e-6) for name, tensor in after.model.state_dict().items())


def changed(**keys: object) -> Callable[[Path], None]:
    """Other values in config.json."""

    def spoil(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))

    return spoil


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without_a_norm(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: tensor for name, tensor in weights.items() if "final_layer" not in name}, folder / "model.safetensors"
    )


def cut_short(folder: Path) -> None:
    path = folder / "source.spm"
    path.write_bytes(path.read_bytes()[:1000])


def without_unknown(folder: Path) -> None:
    names = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps({name: number for name, number in names.items() if name != "<unk>"}))


def with_ids(**ids: object) -> Callable[[Path], None]:
    """Other entries in vocab.json."""

    def spoil(folder: Path) -> None:
        path = folder / "vocab.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **ids}))

    return spoil


def indexed(*names: object) -> Callable[[Path], None]:
    """Weights in several files, by an index that names these; only the first is there."""

    def spoil(folder: Path) -> None:
        first = names[0] if names and isinstance(names[0], str) else "one.safetensors"
        (folder / "model.safetensors").rename(folder / first)
        index = {"weight_map": {f"weight {number}": name for number, name in enumerate(names)}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (changed(model_type="mbart"), "model_type 'mbart', a relative of BART with other norms or positions; only"),
        (changed(model_type="t5"), "model_type 't5'; only marian and bart can be imported"),
        (changed(activation_function="gelu_new"), "activation_function: 'gelu_new' cannot be imported"),
        (changed(encoder_attention_heads=3), "model.encoder.heads: 3 heads do not divide the size 16"),
        (
            changed(decoder_ffn_dim=25),
            "decoder.blocks.0.feedforward.W_1.weight is [24, 16], its config.json needs [25",
        ),
        (changed(dropout=1.5), "config.json: dropout: 1.5 cannot be imported"),
        (changed(max_position_embeddings=1), "config.json: max_position_embeddings: 1 cannot be imported"),
        (changed(model_type=[]), "model_type []; only marian and bart can be imported"),
        (changed(length_penalty=float("inf")), "config.json: length_penalty: inf cannot be imported"),
        (changed(decoder_layers=2), "its weights are not those of its config.json"),
        (changed(pad_token_id=5000, decoder_start_token_id=5000), "which its vocabulary lacks"),
        (pickled, "pytorch_model.bin: a pickle, which can run any code when it is read"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model-1-of-2.bin"), "a pickle, which"),
        (indexed(), "model.safetensors.index.json: its weight_map does not name files beside it"),
        (indexed("../one.safetensors"), "its weight_map does not name files beside it"),
        (indexed("one.safetensors", 1), "its weight_map does not name files beside it"),
        (indexed("one.safetensors", "two.safetensors"), "two.safetensors: cannot be read"),
        (without_a_norm, "its weights are not those of its config.json"),
        (cut_short, "source.spm: not a sentencepiece model (Error parsing message"),
        (lambda folder: (folder / "source.spm").write_bytes(b"\xff" * 99), "source.spm: not a sentencepiece model"),
        (lambda folder: (folder / "source.spm").write_bytes(b""), "not a sentencepiece model (it has no pieces)"),
        (without_unknown, "has no <unk>"),
        (with_ids(new="4"), "vocab.json: the id of 'new' is '4'; copy it again"),
        (with_ids(new=5000), "names 1 pieces beyond its table of"),
        (lambda folder: (folder / "vocab.json").write_text("{"), "vocab.json: not JSON"),
        (lambda folder: (folder / "target.spm").unlink(), "target.spm: cannot be read"),
        (lambda folder: (folder / "config.json").unlink(), "config.json: cannot be read"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"no"), "model.safetensors: cannot be read"),
    ],
)
def test_what_cannot_be_imported_has_a_reason(
    antiphon,  # noqa: ANN001
    opus: Path,
    tmp_path: Path,
    spoil: Callable[[Path], None],
    reason: str,
) -> None:
    spoil(folder := copied(opus, tmp_path / "spoilt"))
    (folder / "generation_config.json").unlink()
    ended = antiphon("import", str(folder), "--out", str(tmp_path / "model"))
    assert (ended.code, ended.out) == (2, "")
    assert reason in ended.err
    assert "Traceback" not in ended.err
    assert {path.name for path in tmp_path.iterdir()} <= {"spoilt", "one.safetensors"}


def test_a_missing_package_has_a_remedy(antiphon, opus: Path, tmp_path: Path, monkeypatch) -> None:  # noqa: ANN001
    monkeypatch.setitem(sys.modules, "sentencepiece.sentencepiece_model_pb2", None)
    ended = antiphon("import", str(opus), "--out", str(tmp_path / "model"))
    assert (ended.code, "pip install 'antiphon[import]'" in ended.err) == (2, True)


def test_nothing_is_overwritten(antiphon, opus: Path, tmp_path: Path) -> None:  # noqa: ANN001
    ended = antiphon("import", str(opus), "--out", str(tmp_path))
    assert (ended.code, "already exists" in ended.err) == (2, True)
    ended = antiphon("import", str(tmp_path / "none"), "--out", str(tmp_path / "model"))
    assert (ended.code, "no such folder" in ended.err) == (2, True)


def test_what_is_not_kept_is_said(antiphon, tmp_path: Path) -> None:  # noqa: ANN001
    """Settings of a search that a model does not have here, and weights that mean nothing here."""
    bart(tmp_path / "bart", fast=True)
    search = {"num_beams": 3, "length_penalty": 2.0, "max_length": 31, "min_length": 5, "no_repeat_ngram_size": 3}
    (tmp_path / "bart" / "generation_config.json").write_text(json.dumps(search))
    weights = load_file(tmp_path / "bart" / "model.safetensors")
    base = {name.removeprefix("model."): tensor for name, tensor in weights.items() if name != "final_logits_bias"}
    save_file({**base, "classifier.weight": torch.ones(1)}, tmp_path / "bart" / "model.safetensors")
    ended = antiphon("import", str(tmp_path / "bart"), "--out", str(tmp_path / "model"))
    assert ended.code == 0, ended.err
    assert "min_length: 5 is not kept; `antiphon generate` has --min-length" in ended.err
    assert "no_repeat_ngram_size: 3 is not kept" in ended.err
    assert "left out: model.classifier.weight" in ended.err
    decoding = load(tmp_path / "model").config.decoding
    assert (decoding.beam, decoding.length_penalty, decoding.max_length) == (3, 2.0, 30)
