"""Joint n-grams in use: among the answers of a beam, in a run and its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_generators import tiny_folder, tiny_generator

import antiphon
from antiphon.config.checks import check_config
from antiphon.config.schema import Config
from antiphon.data.tokenizers import EOS
from antiphon.errors import ModelFolderError, UserError
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel
from antiphon.ngrams import joint as automaton
from antiphon.ngrams.joint import JOINT, IdPair, JointNgrams, load_joint
from antiphon.ngrams.train_joint import align, count_ngrams
from antiphon.search.hypothesis import Hypothesis
from antiphon.search.rerank import by_joint_score
from antiphon.training import side_models as counting
from antiphon.training.display import Display


def counted(pairs: list[IdPair]) -> JointNgrams:
    return count_ngrams(align(pairs), 3)


# a is K, b is L, ... : the tokens of the tiny models
PAIRS = [([4 + k, 4 + m], [4 + k, 4 + m]) for k in range(5) for m in range(5)] * 3


def with_joint(kind: str = "bahdanau", **decoding: object) -> Generator:
    made = tiny_generator(kind)
    config = made.config.model_copy(update={"decoding": made.config.decoding.model_copy(update=decoding)})
    return Generator(
        LoadedModel(config, made.model, made.source_tokenizer, made.target_tokenizer, {"joint": counted(PAIRS)})
    )


TEXTS = ["a b c", "c a e d", "d e a", "b b a e"]  # twice as long as any answer, so that each can be cut into units


def test_they_choose_among_the_answers_of_a_beam() -> None:
    """By log p(y | x) + weight · log p(x, y): the same answers with the model's own scores, in another order."""
    generator = with_joint()
    read, written, joint = generator.source_tokenizer, generator.target_tokenizer, generator.rerankers["joint"]
    assert isinstance(joint, JointNgrams)
    changed = 0
    for text in TEXTS:
        plain = generator.generate(text, beam=5, n_best=5, length_penalty=0.5).alternatives
        other = generator.generate(text, beam=5, n_best=5, length_penalty=0.5, joint=2.0).alternatives
        assert {one.text: one.score for one in other} == {one.text: one.score for one in plain}
        changed += [one.text for one in other] != [one.text for one in plain]
        values = [
            sum(one.log_probs) + 2.0 * (joint.log_prob(read.encode(text), written.encode(one.text)) or 0.0)
            for one in other
            if one.tokens[-1] == "</s>"
        ]
        assert len(values) > 1
        assert values == sorted(values, reverse=True)
    assert changed > 1


def test_what_cannot_be_compared_keeps_its_place() -> None:
    """One that is too long, and one that was cut off; the others change places around them."""
    scores = (-1.0, -1.1, -1.2, -1.3)
    first, long, second, cut = (Hypothesis((5, EOS), (one,), one, finished=one > -1.3) for one in scores)
    found = [first, long, second, cut]
    assert by_joint_score(found, [-9.0, None, -1.0, 0.0], 1.0, 0.0) == [second, long, first, cut]
    assert by_joint_score(found, [-9.0, None, -1.0, 0.0], 0.01, 0.0) == found
    assert by_joint_score(found, [None] * 4, 1.0, 0.0) == found


def test_the_run_says_how_much_they_count_and_a_command_may_say_otherwise() -> None:
    usual, never = with_joint(joint=2.0, beam=5), with_joint(beam=5)
    for text in TEXTS:
        assert usual.generate(text).text == never.generate(text, joint=2.0).text
        assert usual.generate(text, joint=0.0).text == never.generate(text).text
        assert usual.generate(text, beam=1).text == never.generate(text, beam=1).text
        assert usual.generate(text, coverage=1.0).text == never.generate(text, coverage=1.0).text
        assert usual.generate(text, sample=True).text == never.generate(text, sample=True).text
        assert usual.tree(text).tree == never.tree(text).tree
    assert [usual.generate(text).text for text in TEXTS] != [never.generate(text).text for text in TEXTS]


def test_in_any_company() -> None:
    generator = with_joint(joint=2.0, beam=4)
    together = [one.text for one in generator.generate([*TEXTS, "e"])]
    assert together == [generator.generate(text).text for text in (*TEXTS, "e")]


def test_what_makes_no_sense_is_said() -> None:
    generator = with_joint()
    with pytest.raises(UserError, match="joint: only for a beam of 2 and more; leave it out"):
        generator.generate("a", joint=1.0, beam=1)
    with pytest.raises(UserError, match="joint: must be at least 0, not -1"):
        generator.generate("a", joint=-1.0, beam=2)
    with pytest.raises(UserError, match="joint: it orders the answers of a beam, and so does coverage"):
        generator.generate("a", joint=1.0, coverage=1.0, beam=2)
    with pytest.raises(UserError, match="tree: joint reranks answers after the search"):
        generator.tree("a", joint=1.0, beam=2)
    with pytest.raises(
        UserError, match=r"joint: the model has none; `antiphon joint RUN` learns it from the training pairs$"
    ):
        tiny_generator("bahdanau").generate("a", joint=1.0, beam=2)
    with pytest.raises(UserError, match="joint: a language model has no source; leave it out"):
        tiny_generator("rnn-lm").generate("K", joint=1.0, beam=2)


LETTERS = [f"{one}{other}\t{(one + other).upper()}" for one in "abcdefgh" for other in "abcdefgh"]


def small_run(
    folder: Path,
    joint: float = 0.0,
    pairs: list[str] = LETTERS,
    dev: str | None = "pairs.tsv",
    display: Display | None = None,
    *,
    fresh: bool = False,
) -> Path:
    """Letters and their capitals, learnt for a moment, so that answers end but are not right."""
    folder.mkdir(exist_ok=True)
    (folder / "pairs.tsv").write_text("".join(f"{pair}\n" for pair in pairs), "utf-8")
    part = {"embedding": 4, "size": 4, "dropout": 0.0}
    config = {
        "data": {"train": str(folder / "pairs.tsv"), "dev": dev and str(folder / dev)},
        "model": {"encoder": {"kind": "gru", **part}, "decoder": {"kind": "luong", "cell": "gru", **part}},
        "training": {"max_updates": 12, "batch_tokens": 64, "learning_rate": 0.03, "schedule": {"warmup": 0}},
        "decoding": {"beam": 12, "max_length": 8, "length_penalty": 0.0, "joint": joint},
        "evaluation": {"metrics": ["exact_match"]},
    }
    return antiphon.train(Config.model_validate(config), folder / "run", display=display, fresh=fresh)


def all_of(generator: Generator, joint: float | None = None) -> list[str]:
    """The answers of a beam, in order."""
    return [one.text for one in generator.generate("abcd", n_best=12, joint=joint).alternatives]


@pytest.mark.usefixtures("no_pictures")
def test_they_are_counted_for_a_run_and_kept_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, said = small_run(tmp_path), list[str]()
    assert not (run / JOINT).exists()
    made = antiphon.joint(run, say=said.append)
    assert said[-1].startswith("joint n-grams: 8 units, ")
    generator = antiphon.load(run)
    sizes = {"source_tokens": generator.source_tokenizer.size, "target_tokens": generator.target_tokenizer.size}
    kept = load_joint(run, **sizes)
    assert kept.log_prob([4, 5], [4, 5]) == made.log_prob([4, 5], [4, 5])
    shutil.copytree(run, tmp_path / "without")
    (tmp_path / "without" / JOINT).unlink()
    for one in (generator, antiphon.load([run, run]), antiphon.load([tmp_path / "without", run])):
        assert all_of(one, joint=20.0) != all_of(one)
    export = antiphon.load(antiphon.export_model(tmp_path / "without", "onnx", tmp_path / "export"))
    with pytest.raises(UserError, match="`antiphon joint RUN` learns it from the training pairs, then export the run"):
        all_of(export, joint=1.0)
    with pytest.raises(ModelFolderError, match="made for another vocabulary; make it again: antiphon joint"):
        load_joint(run, source_tokens=5, target_tokens=5)
    monkeypatch.setattr(automaton, "FORMAT", 2)
    with pytest.raises(ModelFolderError, match="format 1, this version reads 2; make it again: antiphon joint"):
        antiphon.load(run)
    monkeypatch.undo()
    (run / JOINT).write_bytes(b"no")
    with pytest.raises(ModelFolderError, match=r"cannot be read .*; make it again: antiphon joint"):
        antiphon.load(run)
    antiphon.joint(run)
    assert "joint" in antiphon.load(run).rerankers


class Looking(Display):
    """Is it there at the first update?"""

    def __init__(self, path: Path) -> None:
        self.path, self.there, self.said = path, list[bool](), list[str]()

    def update(self, row: dict[str, float], total: int) -> None:  # noqa: ARG002
        self.there.append(self.path.is_file())

    def log(self, message: str) -> None:
        self.said.append(message)


@pytest.mark.usefixtures("no_pictures")
def test_a_run_that_asks_for_them_counts_them_before_the_first_update(tmp_path: Path) -> None:
    display = Looking(tmp_path / "run" / JOINT)
    run = small_run(tmp_path, joint=20.0, display=display)
    assert display.there == [True] * 12
    before = (run / JOINT).read_bytes()
    generator = antiphon.load(run)
    assert all_of(generator) == all_of(generator, joint=20.0) != all_of(generator, joint=0.0)
    (run / JOINT).unlink()
    (run / "report.html").unlink()  # as if it had been killed just before the end
    small_run(tmp_path, joint=20.0, display=display)
    assert (run / JOINT).read_bytes() == before
    counted = [one for one in display.said if "round 1 of" in one]
    assert len(counted) == 2
    small_run(tmp_path, joint=20.0, display=display)  # all is there
    assert [one for one in display.said if "round 1 of" in one] == counted
    (run / JOINT).unlink()
    small_run(tmp_path, joint=20.0)  # finished, but for them
    assert (run / JOINT).read_bytes() == before
    antiphon.joint(run)
    assert (run / JOINT).read_bytes() == before
    small_run(tmp_path, joint=0.0, fresh=True)
    assert not (run / JOINT).exists()


@pytest.mark.usefixtures("no_pictures")
def test_what_is_held_out_is_not_counted(tmp_path: Path) -> None:
    run = small_run(tmp_path, joint=1.0, dev=None)
    before = (run / JOINT).read_bytes()
    antiphon.joint(run)
    assert (run / JOINT).read_bytes() == before
    small_run(tmp_path / "other", joint=1.0)
    assert (tmp_path / "other" / "run" / JOINT).read_bytes() != before


@pytest.mark.usefixtures("no_pictures")
def test_a_run_without_a_usable_pair_does_not_begin(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none of 8 training pairs can be aligned; set decoding\.joint to 0"):
        small_run(tmp_path, joint=1.0, pairs=[f"{letter}\t{letter.upper() * 3}" for letter in "abcdefgh"])
    assert not (tmp_path / "run" / "config.yaml").exists()
    small_run(tmp_path, joint=0.0, pairs=[f"{letter}\t{letter.upper() * 3}" for letter in "abcdefgh"])


@pytest.mark.usefixtures("no_pictures")
def test_what_is_left_out_is_said_and_what_has_none_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, said, path = small_run(tmp_path), list[str](), tmp_path / "pairs.tsv"
    path.write_text(path.read_text("utf-8") + "a\tAAA\n", "utf-8")
    antiphon.joint(run, say=said.append)
    assert any("joint n-grams: 1 of 65 pairs are left out: a side has more than 40 tokens, the" in one for one in said)
    monkeypatch.setattr(counting, "MOST_PAIRS", 3)
    said.clear()
    antiphon.joint(run, say=said.append)
    assert "there are more pairs; the first 3 are counted" in said
    monkeypatch.setattr(counting, "MOST_PAIRS", 3)
    display = Looking(tmp_path / JOINT)
    small_run(tmp_path / "more", joint=1.0, display=display)
    assert "joint n-grams: there are more pairs; the first 3 are counted" in display.said
    path.write_text("a\tAAA\n" * 9, "utf-8")
    with pytest.raises(UserError, match=r"none of 3 training pairs can be aligned; set decoding\.joint to 0"):
        antiphon.joint(run)
    with pytest.raises(UserError, match="this run is a language model; use another run"):
        antiphon.joint(tiny_folder("rnn-lm", tmp_path / "lm"))
    with pytest.raises(ModelFolderError, match="no such folder"):
        antiphon.joint(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("decoding", "source", "expected"),
    [
        (
            {"joint": 1.0, "beam": 1},
            {},
            "decoding.joint: 1 reranks the answers of a beam, but",
        ),
        ({"joint": 1.0}, {"kind": "features"}, "decoding.joint: 1 is for a source that is one text; set it to 0"),
        ({"joint": 1.0, "beam": 2}, {}, None),
    ],
)
def test_a_config_in_which_they_make_no_sense(
    decoding: dict[str, float], source: dict[str, str], expected: str | None
) -> None:
    config = Config.model_validate({"data": {"train": "a.tsv", "source": source}, "decoding": decoding})
    found = check_config(config)
    assert any(expected in one for one in found) if expected else not any("joint" in one for one in found)
