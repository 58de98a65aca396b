"""Shortlists: the target tokens that a source can give, learnt by IBM model 1."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from tiny_generators import tiny_folder

import antiphon
from antiphon.data.tokenizers import EOS
from antiphon.errors import ModelFolderError, UserError
from antiphon.ngrams.shortlist import SHORTLIST, Shortlist, learn_shortlist, load_shortlist
from antiphon.training import side_models as counting

Pair = tuple[list[int], list[int]]


def listed(found: Shortlist, token: int) -> set[int]:
    return set(found.tokens[found.offsets[token] : found.offsets[token + 1]].tolist())


def loop_model_1(pairs: list[Pair], rounds: int) -> dict[tuple[int, int], float]:
    """IBM model 1 as it is written down, over sets of tokens."""
    p = {(s, t): 1.0 for source, target in pairs for s in source for t in target}
    for _ in range(rounds):
        counts = dict.fromkeys(p, 0.0)
        for source, target in pairs:
            for t in set(target):
                whole = sum(p[s, t] for s in set(source))
                for s in set(source):
                    counts[s, t] += p[s, t] / whole
        sums = {s: sum(count for (other, _), count in counts.items() if other == s) for s, _ in counts}
        p = {(s, t): count / sums[s] for (s, t), count in counts.items()}
    return p


def test_it_is_model_1() -> None:
    draw = random.Random(3)
    pairs = [(draw.choices(range(4, 12), k=draw.randint(1, 6)), draw.choices(range(4, 15), k=5)) for _ in range(40)]
    expected = loop_model_1(pairs, rounds=4)
    found = learn_shortlist(pairs, (12, 15), per_token=3, always=2)
    for s in range(4, 12):
        likely = sorted((t for other, t in expected if other == s), key=lambda t: -expected[s, t])
        assert {round(expected[s, t], 9) for t in listed(found, s)} == {round(expected[s, t], 9) for t in likely[:3]}


def test_a_word_gives_its_translation_and_not_its_company() -> None:
    """Word w is always translated by w + 10, whatever stands beside it."""
    draw = random.Random(5)
    sources = [draw.sample(range(4, 10), k=3) for _ in range(200)]
    found = learn_shortlist([(words, [w + 10 for w in words]) for words in sources], (10, 20), per_token=1, always=1)
    assert [listed(found, w) for w in range(4, 10)] == [{w + 10} for w in range(4, 10)]


def test_what_is_frequent_is_always_there_and_the_end() -> None:
    found = learn_shortlist([([4], [5, 5, 6]), ([4], [5, 7])], (5, 8), per_token=1, always=1)
    assert found.always.tolist() == [EOS, 5]
    assert found.of([]).tolist() == [EOS, 5]


def test_only_ctranslate2_uses_one(tmp_path: Path) -> None:
    folder = Path(tiny_folder("transformer", tmp_path / "model"))
    Shortlist(np.zeros(13, dtype=np.int64), np.zeros(0, dtype=np.int64), np.array([EOS, 5])).save(folder)
    onnx = antiphon.export_model(folder, "onnx", tmp_path / "onnx")
    for model in (folder, [folder, folder], onnx):
        with pytest.raises(
            UserError, match="shortlist: only an export to CTranslate2 uses one; leave it out, or export"
        ):
            antiphon.load(model).generate("a", shortlist=True)
    with pytest.raises(UserError, match="shortlist: nothing is decoded for loss; leave it out"):
        antiphon.evaluate(antiphon.load(folder), pairs_file(tmp_path), metrics=["loss"], shortlist=True)


def pairs_file(folder: Path) -> str:
    path = folder / "pairs.tsv"
    path.write_text("a b\tK L\n\tnothing\nb\tL\nc\tM\n", "utf-8")
    return str(path)


def test_a_broken_one_is_made_again_and_what_is_left_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(tiny_folder("bahdanau", tmp_path / "model"))
    pairs_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    (folder / SHORTLIST).write_bytes(b"no")
    said: list[str] = []
    made = antiphon.shortlist(folder, per_token=1, say=said.append)
    assert made.of([4]).tolist()[0] == EOS
    assert said[0] == "counting pairs.tsv"
    assert any(sentence.startswith("left out: 1 x ") for sentence in said)
    monkeypatch.setattr(counting, "MOST_PAIRS", 1)
    said.clear()
    antiphon.shortlist(folder, say=said.append)
    assert "there are more pairs; the first 1 are counted" in said
    (tmp_path / "pairs.tsv").write_text("\t\n", "utf-8")
    with pytest.raises(UserError, match="not one line can be used"):
        antiphon.shortlist(folder)
    with pytest.raises(ModelFolderError, match="no such folder"):
        antiphon.shortlist(tmp_path / "nowhere")


def test_it_is_kept_in_the_folder(tmp_path: Path) -> None:
    folder = Path(tiny_folder("bahdanau", tmp_path / "model"))
    few = Shortlist(np.zeros(13, dtype=np.int64), np.zeros(0, dtype=np.int64), np.array([EOS, 5]))
    few.save(folder)
    found = load_shortlist(folder, source_tokens=12, target_tokens=9)
    assert found is not None
    assert found.of([4]).tolist() == [EOS, 5]
    with pytest.raises(ModelFolderError, match="made for another vocabulary; make it again"):
        load_shortlist(folder, source_tokens=5, target_tokens=9)
    (folder / SHORTLIST).write_bytes(b"no")
    with pytest.raises(ModelFolderError, match=r"cannot be read .*; make it again: antiphon shortlist"):
        load_shortlist(folder, source_tokens=12, target_tokens=9)
