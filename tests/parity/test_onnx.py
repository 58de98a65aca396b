"""An export to ONNX answers, scores and looks as the run does it was made from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx_models import MODELS, PROMPTS, SOURCE, TARGET, TEXTS, stirred_folder

from antiphon import api
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import EOS, PAD
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.base import EXPORT, export_model
from antiphon.export.onnx_engine import OnnxState
from antiphon.files import sha256
from antiphon.inference.generator import Generator
from antiphon.model_folder import load_model, open_model, save_model
from antiphon.ngrams.train_joint import align, count_ngrams
from antiphon.sequence import Sequence


@dataclass(frozen=True)
class Pair:
    """A run and its export."""

    run: Generator
    export: Generator
    folder: Path
    texts: list[str]


def made(kind: str, folder: Path) -> Pair:
    """A model as a folder, and exported."""
    stirred_folder(kind, folder / "run")
    exported = export_model(folder / "run", "onnx", folder / "export")
    texts = PROMPTS if kind.endswith("-lm") else TEXTS
    return Pair(Generator(load_model(folder / "run")), Generator(open_model(exported)), exported, texts)


@pytest.fixture(scope="module")
def pair_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """Each is made once."""
    return cache(lambda kind: made(kind, tmp_path_factory.mktemp(kind)))


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest, pair_of: Callable[[str], Pair]) -> Pair:
    return pair_of(request.param)


@pytest.fixture(scope="module")
def lstm(pair_of: Callable[[str], Pair]) -> Pair:
    return pair_of("lstm-bahdanau")


def same(left: np.ndarray | None, right: np.ndarray | None) -> None:
    """Equal to four digits, or both not there."""
    assert (left is None) == (right is None)
    if left is not None and right is not None:
        np.testing.assert_allclose(left, right, atol=1e-4)


def test_greedy_answers_are_the_same(pair: Pair) -> None:
    wanted, found = (one.generate(pair.texts, weights=False) for one in (pair.run, pair.export))
    assert len({one.text for one in wanted}) > 1, "else there is nothing to compare"
    assert [one.text for one in found] == [one.text for one in wanted]
    assert [one.score for one in found] == pytest.approx([one.score for one in wanted], abs=1e-3)


def test_beam_search_answers_are_the_same(pair: Pair) -> None:
    options: dict[str, Any] = {"beam": 4, "n_best": 4, "length_penalty": 0.7, "weights": False}
    wanted, found = (one.generate(pair.texts, **options) for one in (pair.run, pair.export))
    equal = [one for one, other in zip(found, wanted, strict=True) if one.text == other.text]
    assert len(equal) >= 0.99 * len(wanted)
    for one, other in zip(found, wanted, strict=True):
        scores = [[answer.score for answer in each.alternatives] for each in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-3)


def test_scores_are_the_same(pair: Pair) -> None:
    targets = ["K", "L M N", "", "O O K L M", "N N N N N N N"] * 6
    pairs: Any = [t for t in targets if t] if pair.texts is PROMPTS else list(zip(TEXTS, targets, strict=False))
    wanted, found = (one.score(pairs, batch_size=7) for one in (pair.run, pair.export))
    assert len({one.log_prob for one in wanted}) > 3
    for one, other in zip(found, wanted, strict=True):
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4, rel=1e-5)


def test_attention_is_the_same(pair: Pair) -> None:
    wanted, found = (one.generate(pair.texts[:15], beam=2) for one in (pair.run, pair.export))
    for one, other in zip(found, wanted, strict=True):
        same(one.weights, other.weights)


def test_every_head_looks_at_the_same(pair: Pair) -> None:
    for text in pair.texts[:4]:
        wanted, found = (one.generate(text, heads=True).heads for one in (pair.run, pair.export))
        assert wanted is not None
        assert found is not None
        for kind in ("cross", "own", "source"):
            same(getattr(found, kind), getattr(wanted, kind))


@pytest.mark.parametrize("beam", [1, 3])
def test_alone_and_in_a_batch_are_the_same(pair: Pair, beam: int) -> None:
    together = pair.export.generate(pair.texts[:12], beam=beam)
    for text, one in zip(pair.texts, together, strict=False):
        alone = pair.export.generate(text, beam=beam)
        assert alone.text == one.text
        assert alone.log_probs == pytest.approx(one.log_probs, abs=1e-4)
        same(alone.weights, one.weights)


def test_the_other_options_work(pair: Pair) -> None:
    """Sampling with the same random numbers; a prefix, where there is a source."""
    options: list[dict[str, Any]] = [{"sample": True, "seed": 3, "n_best": 2, "top_k": 4}]
    options += [] if pair.texts is PROMPTS else [{"prefix": "M N", "beam": 2}]
    for some in options:
        wanted, found = (one.generate(pair.texts[:30], weights=False, **some) for one in (pair.run, pair.export))
        assert [[each.text for each in one.alternatives] for one in found] == [
            [each.text for each in one.alternatives] for one in wanted
        ]


def test_padding_changes_nothing(pair: Pair) -> None:
    """Nor does a source much longer than the one that was traced."""
    model, rows = pair.export.model, [[5] * 15, [4, 6, 7], [8]]
    inputs = torch.tensor([[1, 4, 5]] * len(rows))
    padded = source_batch(rows)
    wider = Sequence(
        torch.nn.functional.pad(padded.values, (0, 3), value=PAD), torch.nn.functional.pad(padded.mask, (0, 3))
    )
    with torch.inference_mode():
        wanted = pair.run.model(padded, inputs).logits
        for found in (model(padded, inputs).logits, model(wider, inputs).logits):
            torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_hypotheses_share_their_source(pair: Pair) -> None:
    """Nothing of a sentence is copied when it gets more hypotheses; when one leaves, the others' stays theirs."""
    model = pair.export.model
    state = model.start(source_batch([[4, 5], [6], [7, 8]]))
    assert isinstance(state, OnnxState)
    wide = state.select(torch.tensor([[0, 0], [1, 1], [2, 2]]))
    assert all(wide.sentences[name] is value for name, value in state.sentences.items())
    assert {len(value) for value in wide.rows.values()} == {6}
    left = wide.select(torch.tensor([[2, 3], [5, 4]]))
    assert {len(value) for value in left.rows.values()} == {4}
    for name, value in state.sentences.items():
        np.testing.assert_array_equal(left.sentences[name], value[1:])


def test_recurrent_layers_are_one_node_each(lstm: Pair) -> None:
    """Three layers in two directions, and a step of one: no loop is rolled out, no cell written out."""
    kinds = [
        [node.op_type for node in onnx.load(lstm.folder / name).graph.node] for name in ("start.onnx", "step.onnx")
    ]
    assert [kind.count("LSTM") for kind in kinds] == [6, 1]
    assert not {"Loop", "Scan", "Sigmoid"} & {*kinds[0], *kinds[1]}


def test_it_says_its_name(lstm: Pair) -> None:
    assert (lstm.run.engine.name, lstm.export.engine.name) == ("torch", "onnx")


def test_what_needs_the_network_is_refused(lstm: Pair, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="an export to onnx has no network to inspect; use the run"):
        api.positions(lstm.export, tmp_path / "positions.png")
    with pytest.raises(UserError, match="an export to onnx has no network to inspect; use the run"):
        api.map_sentences(lstm.export, TEXTS[:5])


def test_a_model_too_large_for_a_file_is_refused(lstm: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.export.onnx_write.LARGEST", 1000)
    with pytest.raises(UserError, match=r"bytes of weights, and an ONNX file holds 1,000 at most; use the run"):
        export_model(lstm.folder.parent / "run", "onnx", tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_a_damaged_graph_is_found(lstm: Pair, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    shutil.copytree(lstm.folder, folder)
    (folder / "start.onnx").unlink()
    content = (folder / "step.onnx").read_bytes()
    (folder / "step.onnx").write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelFolderError) as caught:
        open_model(folder)
    assert [problem.split(";")[0] for problem in caught.value.problems] == [
        f"{folder / 'start.onnx'}: missing",
        f"{folder / 'step.onnx'}: damaged, its checksum is not the one in {EXPORT}",
    ]


def test_a_graph_that_onnxruntime_cannot_read_is_named(lstm: Pair, tmp_path: Path) -> None:
    """As one from a later version: whole, but foreign."""
    folder = tmp_path / "export"
    shutil.copytree(lstm.folder, folder)
    (folder / "step.onnx").write_bytes(b"no graph")
    manifest = json.loads((folder / EXPORT).read_text("utf-8"))
    manifest["files"]["step.onnx"] = sha256(folder / "step.onnx")
    (folder / EXPORT).write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(
        ModelFolderError, match=r"step\.onnx: onnxruntime cannot read it \(.*\); update onnxruntime, or"
    ):
        open_model(folder)


def test_joint_ngrams_go_along(lstm: Pair, tmp_path: Path) -> None:
    sound = dict(zip("abcdefgh", "KLMNOKLM", strict=True))
    ids = [(SOURCE.encode(text), TARGET.encode(" ".join(sound[letter] for letter in text))) for text in TEXTS]
    weights = {name: tensor.clone() for name, tensor in lstm.run.model.state_dict().items()}
    weights["decoder.output.bias"][EOS] += 2.0  # so that answers end
    save_model(tmp_path / "run", lstm.run.config, weights, SOURCE, TARGET)
    count_ngrams(align(ids)).save(tmp_path / "run")
    run = Generator(load_model(tmp_path / "run"))
    export = Generator(open_model(export_model(tmp_path / "run", "onnx", tmp_path / "export")))

    def all_of(generator: Generator, joint: float) -> list[list[str]]:
        answers = generator.generate(TEXTS[:20], beam=4, n_best=4, joint=joint, weights=False)
        return [[one.text for one in answer.alternatives] for answer in answers]

    assert all_of(export, 2.0) == all_of(run, 2.0) != all_of(run, 0.0)
