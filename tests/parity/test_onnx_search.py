"""One ONNX file with its search answers as the run does that it was made from, by onnxruntime alone."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx_models import MODELS, SOURCE, TARGET, TEXTS, configured, stirred_folder
from source_tree import PROJECT
from typer.testing import CliRunner

import antiphon
from antiphon.cli.main import app
from antiphon.config.schema import TextConfig
from antiphon.data.subwords import train_subwords
from antiphon.data.tokenizers import EOS, PAD, SOS, SYMBOLS, UNK, NormalizingTokenizer, TextForm, Tokenizer
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.onnx_search import read_facts
from antiphon.inference.generator import Generator
from antiphon.model_folder import load_model, open_model, save_model
from antiphon.models.build import build_model

EXAMPLE = PROJECT / "examples" / "onnx_plain.py"
KINDS = [kind for kind in MODELS if not kind.endswith("-lm")]
NAMED = ["lstm-bahdanau", "cnn-luong", "transformer"]  # these answer every source alone, too; cnn-luong has an LSTM

ENDING = 0.5  # so that answers end at all steps

Hypotheses = list[list[tuple[list[int], float]]]


@dataclass(frozen=True)
class Searched:
    """A run and its file."""

    run: Generator
    path: Path
    session: onnxruntime.InferenceSession

    def ask(self, texts: list[str], padding: int = 0, **options: float) -> Hypotheses:
        """Ids and score of each hypothesis of each text, by the file; its input has `padding` columns too many."""
        rows = [[*self.run.source_tokenizer.encode(text), EOS] for text in texts]
        ids = np.full((len(rows), max(map(len, rows)) + padding), PAD)
        for row, own in zip(ids, rows, strict=True):
            row[: len(own)] = own
        kinds = {name: np.float32 if name == "length_penalty" else np.int64 for name in options}
        given = {name: np.array(value, dtype=kinds[name]) for name, value in options.items()}
        answers, lengths, scores = self.session.run(["answers", "lengths", "scores"], {"source": ids, **given})
        assert answers.shape == (*lengths.shape, lengths.max())
        assert not answers[np.arange(answers.shape[2]) >= lengths[..., None]].any(), "padding stands behind the end"
        return [
            [(row[:length].tolist(), float(score)) for row, length, score in zip(*values, strict=True)]
            for values in zip(answers, lengths, scores, strict=True)
        ]

    def wanted(self, texts: list[str], **options: Any) -> Hypotheses:  # noqa: ANN401 (any option of a search)
        """The same by the run."""
        found = self.run.generate(texts, weights=False, n_best=options["beam"], **options)
        return [[(one.token_ids, one.score) for one in answer.alternatives] for answer in found]


def searched(run: Path, path: Path) -> Searched:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    antiphon.export_model(run, "onnx", path, with_search=True)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return Searched(Generator(open_model(run, "float32")), path, session)


@pytest.fixture(scope="module")
def file_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Searched]:
    """Each is made once."""

    def made(kind: str) -> Searched:
        folder = tmp_path_factory.mktemp(kind)
        return searched(stirred_folder(kind, folder / "run", ENDING), folder / "model.onnx")

    return cache(made)


def same(found: Hypotheses, wanted: Hypotheses) -> None:
    """The same ids, but for near ties in one of a hundred; the same scores."""
    equal = [[ids for ids, _ in one] == [ids for ids, _ in other] for one, other in zip(found, wanted, strict=True)]
    assert sum(equal) >= 0.99 * len(equal)
    for one, other in zip(found, wanted, strict=True):
        assert [score for _, score in one] == pytest.approx([score for _, score in other], abs=1e-4)


@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_and_scores_are_the_same(file_of: Callable[[str], Searched], kind: str, beam: int) -> None:
    file = file_of(kind)
    wanted = file.wanted(TEXTS, beam=beam, length_penalty=0.7)
    assert len({str(one) for one in wanted}) > 1, "else there is nothing to compare"
    same(file.ask(TEXTS, padding=3, beam=beam, length_penalty=0.7), wanted)
    alone = TEXTS if kind in NAMED else TEXTS[:10]
    same([*(file.ask([text], beam=beam, length_penalty=0.7)[0] for text in alone)], wanted[: len(alone)])


def test_the_beam_shrinks_and_the_rest_is_cut(file_of: Callable[[str], Searched]) -> None:
    """The answers above end at different steps, and some do not end."""
    found = file_of("cnn-luong").ask(TEXTS, beam=5)
    lengths = {len(ids) for one in found for ids, _ in one if ids[-1] == EOS}
    assert len(lengths) > 4
    assert {len(ids) for one in found for ids, _ in one if ids[-1] != EOS} == {8}
    for one in found:
        ends = [ids[-1] == EOS for ids, _ in one]
        assert ends == sorted(ends, reverse=True), "finished ones stand first"
    assert not {PAD, SOS, UNK} & {token for one in found for ids, _ in one for token in ids}


def test_options_change_the_answers_and_have_defaults(file_of: Callable[[str], Searched]) -> None:
    file = file_of("cnn-luong")
    decoding = file.run.config.decoding
    usual = file.ask(TEXTS)
    assert usual == file.ask(TEXTS, beam=decoding.beam, length_penalty=decoding.length_penalty, max_length=8)
    assert {len(one) for one in usual} == {1}
    short = file.ask(TEXTS, beam=3, max_length=4)
    assert max(len(ids) for one in short for ids, _ in one) == 4
    same(short, file.wanted(TEXTS, beam=3, max_length=4))
    for penalty in (0.0, 2.0):
        same(file.ask(TEXTS, beam=4, length_penalty=penalty), file.wanted(TEXTS, beam=4, length_penalty=penalty))
    best = [[one[0][0] for one in file.ask(TEXTS, beam=4, length_penalty=penalty)] for penalty in (0.0, 2.0)]
    assert best[0] != best[1]


def test_a_beam_wider_than_all_answers_has_empty_places(file_of: Callable[[str], Searched]) -> None:
    """In one step there are </s> and five words."""
    [found] = file_of("lstm-bahdanau").ask(["abc"], beam=9, max_length=1)
    assert [len(ids) for ids, _ in found] == [1] * 6 + [0] * 3
    assert [score for _, score in found[6:]] == [-np.inf] * 3


@pytest.mark.parametrize(("kind", "left"), [("gru-transformer", 40), ("transformer-concatenated", 36)])
def test_an_answer_keeps_to_the_learnt_positions(file_of: Callable[[str], Searched], kind: str, left: int) -> None:
    """Those of the decoder, of which one network over both texts has given some to the source."""
    file = file_of(kind)
    assert file.ask(["abc"], beam=5, max_length=99) == file.ask(["abc"], beam=5, max_length=left)
    assert max(len(ids) for ids, _ in file.ask(["abc"], beam=5, max_length=99)[0]) <= left


def test_the_file_is_sound_and_says_what_it_needs(file_of: Callable[[str], Searched]) -> None:
    file = file_of("lstm-bahdanau")
    model = onnx.load(str(file.path))
    onnx.checker.check_model(model, full_check=True)
    assert {one.domain for one in model.opset_import} == {""}, "no operators of one runtime"
    assert [one.name for one in file.session.get_inputs()] == ["source"]
    optional = [one.name for one in file.session.get_overridable_initializers()]
    assert optional == ["beam", "length_penalty", "max_length"]
    facts = read_facts(file.path)
    assert facts["specials"] == {"<pad>": PAD, "<s>": SOS, "</s>": EOS, "<unk>": UNK}
    assert facts["defaults"] == {"beam": 1, "length_penalty": 1.0, "max_length": 8}
    assert facts["longest_source"] == 18
    assert facts["source"] == json.loads(SOURCE.json())
    assert facts["left_out"] == []


def test_refusals(file_of: Callable[[str], Searched], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, out = file_of("lstm-bahdanau").path.parent / "run", tmp_path / "model.onnx"
    with pytest.raises(UserError, match="with_search: an export to ctranslate2 cannot hold the search; leave it out"):
        antiphon.export_model(run, "ctranslate2", out, with_search=True)
    with pytest.raises(UserError, match="with_search: a value of type str"):
        antiphon.export_model(run, "onnx", out, with_search="yes")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="with_search: a language model continues a text, and this file answers"):
        antiphon.export_model(stirred_folder("rnn-lm", tmp_path / "lm"), "onnx", out, with_search=True)
    monkeypatch.setattr("antiphon.export.onnx_write.LARGEST", 1000)
    with pytest.raises(UserError, match="bytes of weights, and an ONNX file holds 1,000 at most"):
        antiphon.export_model(run, "onnx", out, with_search=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lm"]
    with pytest.raises(ModelFolderError, match=r"model\.onnx: a file, and a model is a folder; give the run"):
        open_model(file_of("lstm-bahdanau").path)


def test_the_command_names_defaults_that_the_file_cannot_follow(tmp_path: Path) -> None:
    run, config = stirred_folder("lstm-bahdanau", tmp_path / "run"), configured("lstm-bahdanau")
    decoding = config.decoding.model_copy(update={"replace_unknown": True})
    weights = load_model(run).model.state_dict()
    save_model(tmp_path / "other", config.model_copy(update={"decoding": decoding}), weights, SOURCE, TARGET)
    out = tmp_path / "model.onnx"
    command = ["export", str(tmp_path / "other"), "--to", "onnx", "--with-search", "--out", str(out)]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0
    assert "decoding.replace_unknown: the run uses it, and the search in the file does not" in said.stderr
    assert out.is_file()


# examples/onnx_plain.py


def tokenizer(kind: str) -> Tokenizer:
    texts = ["ab cé", "ba dé", "한글 ab", "Abc d"] * 3
    if kind == "bpe":
        return train_subwords(texts, TextConfig(tokens="bpe", vocabulary=270, column=0), "data.source")
    split, made = SYMBOLS[kind]
    plain = made(sorted({symbol for text in texts for symbol in split(text)}))
    return NormalizingTokenizer(plain, TextForm(lowercase=True, normalization="nfc")) if kind == "words" else plain


@pytest.mark.parametrize("kind", ["words", "characters", "letters", "bpe"])
def test_the_plain_example_answers_as_the_run_does(kind: str, tmp_path: Path) -> None:
    sides, config = tokenizer(kind), configured("gru-luong-hard")
    torch.manual_seed(1)
    model = build_model(config.model, source_tokens=sides.size, target_tokens=sides.size)
    save_model(tmp_path / "run", config, model.state_dict(), sides, sides)
    file = searched(tmp_path / "run", tmp_path / "model.onnx")
    texts = ["ab cé", "AB ba", "z한 d", "ce\u0301 글"]
    command = [sys.executable, str(EXAMPLE), str(file.path), "--beam", "4", "--max-length", "6"]
    given = subprocess.run([*command, *texts], capture_output=True, text=True, check=True, encoding="utf-8")
    piped = subprocess.run(
        command, input="\n".join(texts), capture_output=True, text=True, check=True, encoding="utf-8"
    )
    wanted = file.run.generate(texts, beam=4, max_length=6, weights=False)
    assert given.stdout == piped.stdout == "".join(f"{one.text}\t{one.score:.4f}\n" for one in wanted)
    assert len(set(given.stdout.splitlines())) > 1, "else there is nothing to compare"


def test_the_plain_example_needs_no_antiphon() -> None:
    tree = ast.parse(EXAMPLE.read_text("utf-8"))
    modules = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    foreign = {name.split(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert foreign == {"numpy", "onnxruntime", "tokenizers"}
