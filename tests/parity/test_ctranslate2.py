"""An export to CTranslate2 says what the model says, with the same scores."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_generators import tiny_folder
from torch.nn.functional import cross_entropy

from antiphon.config.schema import Config
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import EOS, PAD, SOS, UNK, WordTokenizer
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.base import export_model
from antiphon.export.ctranslate2_engine import TranslatorPool
from antiphon.export.ctranslate2_write import position_counts, vocabulary_map
from antiphon.inference.generator import Generator
from antiphon.inference.options import SearchOptions
from antiphon.model_folder import load_model, open_model, save_model
from antiphon.models.build import build_model
from antiphon.models.model import SequenceModel
from antiphon.ngrams.joint import JointNgrams
from antiphon.ngrams.shortlist import Shortlist
from antiphon.ngrams.train_joint import align, count_ngrams
from antiphon.sequence import Sequence

WORDS = WordTokenizer([f"w{number}" for number in range(12)])
DRAWN = random.Random(8)
TEXTS = [" ".join(f"w{DRAWN.randrange(12)}" for _ in range(DRAWN.randint(1, 9))) for _ in range(200)]
BLOCKS: dict[str, Any] = {"kind": "transformer", "heads": 2, "feedforward": 24, "dropout": 0.0}
LEARNT = {"positions": {"kind": "learnt", "longest": 40}}
# Every way of each option, and parts of unlike size where nothing is tied.
MODELS: dict[str, dict[str, Any]] = {
    "pre": {
        "encoder": {**BLOCKS, "size": 16, "layers": 2, "order": "pre"},
        "decoder": {**BLOCKS, "size": 12, "layers": 1, "order": "pre", "heads": 3},
    },
    "post": {
        "encoder": {**BLOCKS, "size": 16, "layers": 1, "order": "post", "activation": "gelu", **LEARNT},
        "decoder": {**BLOCKS, "size": 16, "layers": 2, "order": "post", "activation": "gelu", **LEARNT},
        "tie": "output",
    },
    "mixed": {
        "encoder": {**BLOCKS, "size": 16, "layers": 1, "order": "pre", "activation": "gelu"},
        "decoder": {**BLOCKS, "size": 16, "layers": 1, "order": "post", **LEARNT},
        "tie": "tables",
    },
    "tied": {
        "encoder": {**BLOCKS, "size": 16, "layers": 1, "order": "post", "scale": False, **LEARNT},
        "decoder": {**BLOCKS, "size": 16, "layers": 2, "order": "pre", "activation": "swish", "embedding_norm": True},
        "tie": "all",
    },
}


@dataclass(frozen=True)
class Both:
    """A model here and there."""

    run: Generator
    export: Generator
    folder: Path


def config_of(model: dict[str, Any]) -> Config:
    side = {"tokens": "words", "max_length": 30}
    return Config.model_validate(
        {
            "data": {
                "train": "pairs.tsv",
                "source": side,
                "target": {**side, "column": 1},
                "shared_vocabulary": model.get("tie") in ("tables", "all"),
            },
            "model": model,
            "decoding": {"beam": 1, "max_length": 14, "batch_size": 16},
        }
    )


@cache
def taught(name: str, updates: int = 80) -> SequenceModel:
    """A model that has begun to learn to copy, so that its answers are as long and as unlike as their sources."""
    torch.manual_seed(4)
    model = build_model(config_of(MODELS[name]).model, source_tokens=WORDS.size, target_tokens=WORDS.size)
    rows = [WORDS.encode(text) for text in TEXTS]
    for update in range(updates):
        batch = rows[update % 5 :: 5]
        inputs = Sequence.of_ids([[SOS, *row] for row in batch], PAD).values
        outputs = Sequence.of_ids([[*row, EOS] for row in batch], PAD).values
        loss = cross_entropy(model(source_batch(batch), inputs).logits.flatten(0, 1), outputs.flatten(), ignore_index=0)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.02 * (1 - update / updates) * parameter.grad.sign()
    return model


def saved(name: str, folder: Path, *, unknown: float) -> Path:
    """A model as a folder, in which <unk> and the like are as rare as after long training, or likely."""
    weights = {key: tensor.clone() for key, tensor in taught(name).state_dict().items()}
    weights["decoder.output.bias"][[PAD, SOS, UNK]] += unknown
    save_model(folder, config_of(MODELS[name]), weights, WORDS, WORDS)
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Both]:
    """Models by name, each made once; int8 or not."""
    made: dict[tuple[str, bool, float], Both] = {}

    def make(name: str, *, int8: bool = False, unknown: float = -8.0) -> Both:
        if (name, int8, unknown) not in made:
            folder = tmp_path_factory.mktemp(name)
            run = saved(name, folder / "run", unknown=unknown)
            out = export_model(run, "ctranslate2", folder / "export", int8=int8)
            made[name, int8, unknown] = Both(Generator(load_model(run)), Generator(open_model(out)), out)
        return made[name, int8, unknown]

    return make


@pytest.mark.parametrize("unknown", [-8.0, 6.0])
@pytest.mark.parametrize("name", MODELS)
def test_greedy_answers_are_the_same(both: Callable[..., Both], name: str, unknown: float) -> None:
    """Also where <unk> would be likely: it is never said, and still counts in what the others are worth."""
    pair = both(name, unknown=unknown)
    here, there = (one.generate(TEXTS, weights=False) for one in (pair.run, pair.export))
    assert [answer.text for answer in there] == [answer.text for answer in here]
    assert len({answer.text for answer in here}) > 15
    assert len({len(answer.tokens) for answer in here}) > 3
    for mine, other in zip(here, there, strict=True):
        assert other.tokens == mine.tokens
        assert other.flags == mine.flags
        assert other.score == pytest.approx(mine.score, abs=1e-3)
        assert other.log_probs == pytest.approx(mine.log_probs, abs=1e-3)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("name", MODELS)
def test_a_beam_that_stays_full_finds_the_same(both: Callable[..., Both], name: str, penalty: float) -> None:
    pair = both(name)
    here = pair.run.generate(TEXTS, beam=4, n_best=3, patience=1.0, length_penalty=penalty, weights=False)
    there = pair.export.generate(TEXTS, beam=4, n_best=3, length_penalty=penalty, weights=False)
    same = [mine.tokens == other.tokens for mine, other in zip(here, there, strict=True)]
    assert sum(same) >= 0.99 * len(TEXTS)
    ranked = [
        [one.tokens for one in mine.alternatives] == [one.tokens for one in other.alternatives]
        for mine, other in zip(here, there, strict=True)
    ]
    assert sum(ranked) >= 0.95 * len(TEXTS)
    for mine, other, equal in zip(here, there, same, strict=True):
        assert len(other.alternatives) == 3
        if equal:
            assert other.score == pytest.approx(mine.score, abs=1e-3)
            assert other.log_probs == pytest.approx(mine.log_probs, abs=1e-3)


def test_patience_goes_on_searching(both: Callable[..., Both]) -> None:
    pair = both("pre")
    here, there = (
        one.generate(TEXTS, beam=3, patience=1.5, length_penalty=1.0, weights=False) for one in (pair.run, pair.export)
    )
    same = [mine.tokens == other.tokens for mine, other in zip(here, there, strict=True)]
    assert sum(same) >= 0.99 * len(TEXTS)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_prefix_is_said_and_counts(both: Callable[..., Both], beam: int) -> None:
    """CTranslate2 would leave it out of the score. Its beam says </s> right after it only if nothing is better."""
    pair = both("mixed")
    prefixes = [f"w{number % 7} w3" if number % 3 else "" for number in range(len(TEXTS))]
    patience = {"patience": 1.0} if beam > 1 else {}
    here = pair.run.generate(TEXTS, beam=beam, prefix=prefixes, weights=False, **patience)
    there = pair.export.generate(TEXTS, beam=beam, prefix=prefixes, weights=False, **patience)
    assert all(answer.text.startswith(prefix) for answer, prefix in zip(there, prefixes, strict=True))
    same = [mine.tokens == other.tokens for mine, other in zip(here, there, strict=True)]
    assert sum(same) >= (1.0 if beam == 1 else 0.9) * len(TEXTS)
    for mine, other, equal in zip(here, there, same, strict=True):
        if equal:
            assert other.score == pytest.approx(mine.score, abs=1e-3)


def test_the_company_and_the_order_make_no_difference(both: Callable[..., Both]) -> None:
    pair = both("post")
    for beam in (1, 4):
        expected = dict(zip(TEXTS, pair.export.generate(TEXTS, beam=beam, batch_size=64, weights=False), strict=True))
        shuffled = random.Random(3).sample(TEXTS, 40)
        for text, answer in zip(shuffled, pair.export.generate(shuffled, beam=beam, batch_size=3), strict=True):
            assert answer.tokens == expected[text].tokens
            assert answer.score == pytest.approx(expected[text].score, abs=1e-4)


def test_max_length_cuts_at_the_same_place(both: Callable[..., Both]) -> None:
    """</s> counts; an answer that is cut says so."""
    pair = both("pre")
    here, there = (one.generate(TEXTS, max_length=3, weights=False) for one in (pair.run, pair.export))
    assert [answer.tokens for answer in there] == [answer.tokens for answer in here]
    assert [answer.flags for answer in there] == [answer.flags for answer in here]
    assert any("maximum length" in flag for answer in there for flag in answer.flags)
    assert any(answer.tokens[-1] == "</s>" for answer in there)
    whole = pair.export.generate("w1 w2", prefix="w1 w2 w3 w4", max_length=2)
    assert whole.tokens == ["w1", "w2"]


@pytest.mark.parametrize("name", ["pre", "post"])
def test_given_targets_have_the_same_log_probs(both: Callable[..., Both], name: str) -> None:
    """Also empty ones, and sources of nothing; the size of a batch makes no difference."""
    pair = both(name)
    pairs = [*zip(TEXTS[:40], TEXTS[40:80], strict=True), ("w1", ""), ("", "w2"), ("w3 what", "w4 what")]
    here, there = pair.run.score(pairs), pair.export.score(pairs, batch_size=7)
    for mine, other in zip(here, there, strict=True):
        assert other.tokens == mine.tokens
        assert other.log_prob == pytest.approx(mine.log_prob, abs=1e-3)
        assert other.log_probs == pytest.approx(mine.log_probs, abs=1e-3)


def test_int8_is_smaller_and_says_nearly_the_same(both: Callable[..., Both]) -> None:
    whole, small = both("post"), both("post", int8=True)
    sizes = [(one.folder / "model.bin").stat().st_size for one in (whole, small)]
    assert sizes[1] < 0.8 * sizes[0]  # biases and positions, the most of so small a model, stay as they are
    here, there = (one.generate(TEXTS, weights=False) for one in (whole.run, small.export))
    same = [mine.text == other.text for mine, other in zip(here, there, strict=True)]
    assert sum(same) >= 0.95 * len(TEXTS)  # with weights up to 127, processors without VNNI get half of them wrong


def test_without_log_probs_nothing_is_read_twice(both: Callable[..., Both]) -> None:
    """The answers are the same; the scores of a beam are then CTranslate2's own."""
    pair = both("pre")
    questions = [pair.export.codec.encode(text) for text in TEXTS]
    told = [[] for _ in questions]
    for beam in (1, 4):
        options = SearchOptions(
            beam=beam, n_best=1, max_length=14, length_penalty=1.0, batch_size=16, joint=0.0, replace_unknown=False
        )
        numbers = [(row,) for row in range(len(questions))]
        full = pair.export.engine.decode(questions, told, options, numbers)
        bare = pair.export.engine.decode(questions, told, replace(options, log_probs=False), numbers)
        for [one, *_], [other, *_] in zip(full, bare, strict=True):
            assert other.tokens == one.tokens
            assert other.log_probs == ()
            assert other.score == pytest.approx(one.score, abs=1e-3)


def test_other_ways_for_a_word(both: Callable[..., Both]) -> None:
    pair = both("mixed")
    here, there = (one.alternatives(TEXTS[0], 0, count=3) for one in (pair.run, pair.export))
    assert [choice.token for choice in there] == [choice.token for choice in here]
    assert [choice.probability for choice in there] == pytest.approx([choice.probability for choice in here], abs=1e-4)


def test_what_it_cannot_do_is_said_at_once(both: Callable[..., Both]) -> None:
    export = both("pre").export
    with pytest.raises(UserError) as caught:
        export.generate(TEXTS[0], sample=True, min_length=2, max_length=600)
    least, sample, longest = caught.value.problems
    instead = "leave it out, or use the run that the export was made from"
    removed = "CTranslate2 removes forbidden tokens before its softmax, which changes the scores"
    drawn = "CTranslate2 draws random numbers for a whole batch, so an answer would depend on the batch"
    assert (least, sample) == (f"min_length: {removed}; {instead}", f"sample: {drawn}; {instead}")
    assert longest.startswith("max_length: 600, but the export has 512 positions; give at most that")
    for wish in ({"coverage": 0.2}, {"diversity": 0.5}, {"require": ["w1"]}, {"replace_unknown": True}):
        with pytest.raises(UserError, match=f"^{next(iter(wish))}: the search of CTranslate2 does not have it"):
            export.generate(TEXTS[0], beam=4, **wish)
    with pytest.raises(UserError, match="n_best: 3 answers, but the search stops when 2 have ended"):
        export.generate(TEXTS[0], beam=4, patience=0.5, n_best=3)
    with pytest.raises(UserError, match="attention: CTranslate2 does not return every layer and head; use the run"):
        export.generate(TEXTS[0], heads=True)
    with pytest.raises(UserError, match="CTranslate2 does not show the steps of its search; use the run"):
        export.tree(TEXTS[0])
    assert export.generate(TEXTS[0]).weights is None


def test_a_target_longer_than_the_positions_is_refused(both: Callable[..., Both]) -> None:
    long = " ".join(["w1"] * 512)
    with pytest.raises(UserError, match="target 2: 513 tokens with </s>, but the export has 512 positions"):
        both("pre").export.score([("w1", "w2"), ("w1", long)])
    [scored] = both("pre").export.score([("w1", " ".join(["w1"] * 511))])
    assert len(scored.log_probs) == 512


def test_how_many_positions_there_are() -> None:
    config = config_of(MODELS["mixed"])
    assert position_counts(config) == {"encoder": 31, "decoder": 40}  # learnt: its own end
    config = config_of(MODELS["pre"])
    long = config.model_copy(update={"decoding": config.decoding.model_copy(update={"max_length": 900})})
    assert position_counts(long) == {"encoder": 31, "decoder": 900}


def test_models_that_cannot_be_expressed_are_refused_with_the_reason(tmp_path: Path) -> None:
    reasons = {
        "bahdanau": ["model.encoder.kind: CTranslate2 has Transformers only, not gru", "model.decoder.kind: "],
        "mixed": ["model.decoder.kind: CTranslate2 has Transformers only, not luong; export it with --to onnx"],
        "transformer-lm": ["model.kind: CTranslate2 has encoder-decoders only, not a language-model"],
        "transformer-concatenated": ["model.kind: CTranslate2 has encoder-decoders only, not a concatenated"],
    }
    for kind, expected in reasons.items():
        with pytest.raises(UserError) as caught:
            export_model(tiny_folder(kind, tmp_path / kind), "ctranslate2", tmp_path / "out")
        assert len(caught.value.problems) == len(expected)
        for problem, reason in zip(caught.value.problems, expected, strict=True):
            assert problem.startswith(reason)
            assert problem.endswith("; export it with --to onnx")
        assert not (tmp_path / "out").exists()


def test_norms_and_ngrams_that_it_lacks_are_refused(tmp_path: Path) -> None:
    parts = {"encoder": {**BLOCKS, "size": 16, "ngrams": [3]}, "decoder": {**BLOCKS, "size": 16, "norm": "batch"}}
    config = config_of(parts)
    model = build_model(config.model, source_tokens=WORDS.size, target_tokens=WORDS.size)
    save_model(tmp_path / "run", config, model.state_dict(), WORDS, WORDS)
    with pytest.raises(UserError) as caught:
        export_model(tmp_path / "run", "ctranslate2", tmp_path / "out")
    norm, ngrams = caught.value.problems
    assert norm.startswith("model.decoder.norm: CTranslate2 has layer norms only, not batch norms")
    assert ngrams.startswith("model.encoder.ngrams: CTranslate2 has no vectors of n-grams")


def test_a_damaged_folder_is_said(tmp_path: Path) -> None:
    out = export_model(saved("pre", tmp_path / "run", unknown=-8.0), "ctranslate2", tmp_path / "out")
    with pytest.raises(UserError, match="already exists"):
        export_model(tmp_path / "run", "ctranslate2", out)
    weights = (out / "model.bin").read_bytes()
    (out / "model.bin").write_bytes(weights[:-9])
    (out / "config.json").unlink()
    with pytest.raises(ModelFolderError) as caught:
        open_model(out)
    missing, damaged = caught.value.problems
    assert missing == f"{out}/config.json: missing; export the model again"
    assert damaged.startswith(f"{out}/model.bin: damaged")


def test_a_folder_that_ctranslate2_cannot_read_is_said(tmp_path: Path) -> None:
    """Whole by its checksums, but of no use: as if a newer version had written it."""
    out = export_model(saved("pre", tmp_path / "run", unknown=-8.0), "ctranslate2", tmp_path / "out")
    manifest = json.loads((out / "export.json").read_bytes())
    (out / "model.bin").unlink()
    del manifest["files"]["model.bin"]
    (out / "export.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelFolderError, match=r"CTranslate2 cannot read it \(.*model.bin.*\); update ctranslate2"):
        open_model(out)
    del manifest["facts"]["positions"]
    (out / "export.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelFolderError, match="lacks the number of positions; export the model again"):
        open_model(out)


def test_a_shortlist_may_be_empty() -> None:
    """All that is said is what is always there."""
    nothing = np.zeros(0, dtype=np.int64)
    assert vocabulary_map(Shortlist(np.zeros(7, dtype=np.int64), nothing, np.array([EOS, 5]))) == "\t</s> 5\n"
    assert vocabulary_map(Shortlist(np.array([0, 0, 1, 1, 1]), np.array([4]), nothing)) == "<s>\t4\n"


def test_a_shortlist_goes_along(tmp_path: Path, both: Callable[..., Both]) -> None:
    """Only listed tokens are said; without one in the export it is refused."""
    pair = both("pre")
    with pytest.raises(UserError, match="shortlist: the export has none; `antiphon shortlist RUN` learns one"):
        pair.export.generate(TEXTS[0], beam=1, shortlist=True)
    generator, folder = pair.run, tmp_path / "short"
    parts = (generator.config, generator.model.state_dict(), WORDS, WORDS)
    save_model(folder, *parts)
    own = np.arange(WORDS.size + 1)  # each word gives itself
    Shortlist(own, own[:-1], np.array([EOS])).save(folder)
    export = Generator(open_model(export_model(folder, "ctranslate2", tmp_path / "export")))
    for text in TEXTS[:20]:
        answer = export.generate(text, beam=1, shortlist=True, batch_size=1, weights=False)
        unlisted = [word for word in WORDS.symbols(list(range(WORDS.size))) if word not in [*text.split(), "</s>"]]
        run = generator.generate(text, beam=1, forbid=[word for word in unlisted if word[0] != "<"], weights=False)
        assert set(answer.text.split()) <= set(text.split())
        assert answer.text == run.text


def test_joint_ngrams_go_along(tmp_path: Path, both: Callable[..., Both]) -> None:
    """CTranslate2 finds the answers, and the n-grams order them as they do those of the run."""
    generator, folder = both("pre").run, tmp_path / "joint"
    save_model(folder, generator.config, generator.model.state_dict(), WORDS, WORDS)
    ids = [WORDS.encode(text) for text in TEXTS]
    count_ngrams(align([(source, source[::-1]) for source in ids])).save(folder)
    export = Generator(open_model(export_model(folder, "ctranslate2", tmp_path / "export")))
    changed = 0
    for text in TEXTS[:20]:
        plain, found = (export.generate(text, beam=4, n_best=4, joint=weight, weights=False) for weight in (0.0, 0.5))
        own = {one.text: one.score * len(one.tokens) for one in plain.alternatives}
        ngrams = export.rerankers["joint"]
        assert isinstance(ngrams, JointNgrams)
        joint = {one: ngrams.log_prob(WORDS.encode(text), WORDS.encode(one)) for one in own}
        if None in joint.values():  # an answer more than twice as long as its source
            continue
        order = sorted(own, key=lambda one: -(own[one] + 0.5 * (joint[one] or 0.0)))
        assert [one.text for one in found.alternatives] == order
        alone = export.generate(text, beam=4, joint=0.5, weights=False)
        assert alone.text == order[0]
        assert len(alone.log_probs) == len(alone.tokens)
        changed += order != list(own)
    assert changed


def test_threads_go_to_one_sentence_or_to_several_batches(both: Callable[..., Both]) -> None:
    """A float32 model has both ways, the second only once it is asked for; int8 has one thread for each batch."""
    path = str(both("pre").folder)
    pool = TranslatorPool(path, threads=2, int8=False)
    assert [pool.translator(sentences).num_translators for sentences in (1, 2, 64)] == [1, 2, 2]
    assert pool.translator(2) is pool.translator(64)
    for one in (TranslatorPool(path, threads=2, int8=True), TranslatorPool(path, threads=1, int8=False)):
        assert one.translator(1) is one.translator(2)
        assert one.translator(1).num_translators == one.threads


def test_a_folder_that_has_gone_is_named(both: Callable[..., Both], tmp_path: Path) -> None:
    """The second way is read late: by then the folder may have been moved."""
    shutil.copytree(both("pre").folder, tmp_path / "moved")
    pool = TranslatorPool(str(tmp_path / "moved"), threads=2, int8=False)
    shutil.rmtree(tmp_path / "moved")
    with pytest.raises(ModelFolderError, match=r"moved: CTranslate2 cannot read it .* export the model again"):
        pool.translator(2)
