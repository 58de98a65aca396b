from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from antiphon.config.schema import DataConfig, TextConfig
from antiphon.data import encode as encoding
from antiphon.data import encode as holdout
from antiphon.data import prepare as corpus
from antiphon.data.corpus import RaggedWriter
from antiphon.data.pairs import Example
from antiphon.data.prepare import Prepared, Ragged, prepare


def quiet(_: str) -> None: ...


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a cache of its own in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / "cache"))
    return tmp_path


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> None:
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in pairs).encode())


CHARACTERS = TextConfig(column=0)
WORDS = TextConfig(column=1, tokens="words")


def config(
    train: str | list[str] = "train.tsv",
    dev: str | None = "dev.tsv",
    source: TextConfig = CHARACTERS,
    target: TextConfig = WORDS,
    hold_out: float = 0.05,
    shared_vocabulary: bool = False,
) -> DataConfig:
    return DataConfig(
        train=train, dev=dev, source=source, target=target, hold_out=hold_out, shared_vocabulary=shared_vocabulary
    )


def texts(prepared: Prepared) -> list[tuple[str, str]]:
    source, target = prepared.source_tokenizer, prepared.target_tokenizer
    return [
        (source.decode(prepared.train.source[row].tolist()), target.decode(prepared.train.target[row].tolist()))
        for row in range(len(prepared.train))
    ]


NUMBERS = [(f"word{number}", " ".join(str(number))) for number in range(200)]


def test_pairs_come_back_in_order(folder: Path) -> None:
    write_pairs(folder / "train.tsv", NUMBERS)
    write_pairs(folder / "dev.tsv", [("word7", "7"), ("word7", "7 7")])
    prepared = prepare(config(), quiet)
    assert texts(prepared) == NUMBERS
    assert prepared.dev == [Example(("word7",), ("7", "7 7"), 1)]
    assert isinstance(prepared.train.source.ids, np.memmap)
    assert prepared.train.source.ids.dtype == np.int32
    assert prepared.train.source.lengths.tolist() == [len(source) for source, _ in NUMBERS]


def test_second_start_only_maps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pairs(folder / "train.tsv", NUMBERS)
    write_pairs(folder / "dev.tsv", NUMBERS[:3])
    first = prepare(config(), quiet)
    monkeypatch.setattr(corpus, "build_entry", None)
    second = prepare(config(), quiet)
    assert texts(second) == texts(first)
    assert second.dev == first.dev
    assert second.facts == first.facts


def test_the_key_is_content_and_config(folder: Path) -> None:
    write_pairs(folder / "dev.tsv", NUMBERS[:3])
    write_pairs(folder / "train.tsv", NUMBERS)
    assert len(prepare(config(), quiet).train) == 200
    write_pairs(folder / "train.tsv", NUMBERS[:100])
    assert len(prepare(config(), quiet).train) == 100
    words = prepare(config(source=TextConfig(column=0, tokens="words")), quiet)
    assert words.train.source.lengths.max() == 1
    assert len(list((folder / "cache" / "data").iterdir())) == 3


def test_held_out_sources_keep_their_references_together(folder: Path) -> None:
    pairs = [(source, answer) for source, target in NUMBERS for answer in (target, target + " !")]
    write_pairs(folder / "train.tsv", pairs)
    prepared = prepare(config(dev=None, hold_out=0.1), quiet)
    assert len(prepared.dev) == 20
    assert all(len(example.references) == 2 for example in prepared.dev)
    held = {example.source for example in prepared.dev}
    assert held.isdisjoint(source for source, _ in texts(prepared))
    assert len(prepared.train) == len(pairs) - 40
    assert prepared.facts["dev"] == {"sources": 20, "references": 40, "held_out": True}


def test_what_is_held_out_depends_on_the_source_only(folder: Path) -> None:
    write_pairs(folder / "train.tsv", NUMBERS)
    first = {example.source for example in prepare(config(dev=None), quiet).dev}
    write_pairs(folder / "train.tsv", [(source, "other") for source, _ in reversed(NUMBERS)])
    assert {example.source for example in prepare(config(dev=None), quiet).dev} == first


def test_held_out_at_least_one_at_most_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pairs(folder / "train.tsv", NUMBERS[:3])
    assert len(prepare(config(dev=None), quiet).dev) == 1
    monkeypatch.setattr(holdout, "MOST_HELD_OUT", 7)
    write_pairs(folder / "train.tsv", NUMBERS)
    assert len(prepare(config(dev=None, hold_out=0.4), quiet).dev) == 7


def test_vocabulary_is_learnt_from_the_training_side_only(folder: Path) -> None:
    write_pairs(folder / "train.tsv", [("ab", "x"), ("ba", "y")])
    write_pairs(folder / "dev.tsv", [("aß", "x z"), ("ab", "y")])
    prepared = prepare(config(), quiet)
    facts = prepared.facts
    assert prepared.source_tokenizer.unknown("ß") == ["ß"]
    assert facts["vocabulary"] == {"source": 6, "target": 6, "shared": False}
    assert facts["dev_unknown"]["source"] == {"count": 1, "times": 1, "listed": ["ß"]}
    assert facts["dev_unknown"]["target"] == {"count": 1, "times": 1, "listed": ["z"]}
    assert facts["dev_overlap"] == 1
    assert facts["warnings"] == [
        "dev.tsv: 1 of 2 dev sources are also in train, so dev results look too good; take them out of train.tsv, or "
        "set data.dev to null to hold other examples out",
        "dev.tsv: 1 symbol of the dev sources is not in the vocabulary (1 time): 'ß'; check that dev is spelt like "
        "train, or add training examples with them",
        "dev.tsv: 1 symbol of the dev targets is not in the vocabulary (1 time): 'z'; check that dev is spelt like "
        "train, or add training examples with them",
    ]


def test_shared_vocabulary_is_one(folder: Path) -> None:
    write_pairs(folder / "train.tsv", [("a b", "c"), ("b", "d")])
    write_pairs(folder / "dev.tsv", [("a", "c")])
    words = TextConfig(column=0, tokens="words")
    shared = prepare(config(source=words, shared_vocabulary=True), quiet)
    assert shared.source_tokenizer is shared.target_tokenizer
    assert shared.source_tokenizer.size == 8
    apart = prepare(config(source=words), quiet)
    assert apart.source_tokenizer.size == apart.target_tokenizer.size == 6


def test_too_long_is_dropped_counted_and_listed(folder: Path) -> None:
    write_pairs(folder / "train.tsv", [("aaaa", "x"), ("aaaaa", "x"), ("a", "x x x"), ("a", "x x")])
    write_pairs(folder / "dev.tsv", [("a", "x")])
    data = config(source=TextConfig(column=0, max_length=4), target=TextConfig(column=1, tokens="words", max_length=2))
    prepared = prepare(data, quiet)
    assert texts(prepared) == [("aaaa", "x"), ("a", "x x")]
    dropped = prepared.facts["dropped"]
    assert dropped["reasons"] == {"source longer than 4 tokens": 1, "target longer than 2 tokens": 1}
    assert [place["line"] for place in dropped["places"]] == [2, 3]
    assert prepared.facts["warnings"][0] == (
        "2 examples left out: 1 x source longer than 4 tokens (train.tsv, line 2), "
        "1 x target longer than 2 tokens (train.tsv, line 3)"
    )


SHORT = TextConfig(column=0, max_length=4)
SHORT_WORDS = TextConfig(column=1, tokens="words", max_length=2)


def test_dev_has_the_same_limits(folder: Path) -> None:
    write_pairs(folder / "train.tsv", [("aaaa", "x"), ("a", "x x")])
    write_pairs(folder / "dev.tsv", [("a" * 100_000, "x"), ("aa", "x " * 1000), ("aa", "x x"), ("aaa", "x " * 1000)])
    prepared = prepare(config(source=SHORT, target=SHORT_WORDS), quiet)
    assert prepared.dev == [Example(("aa",), ("x x",), 3)]
    facts = prepared.facts
    assert facts["dropped"]["files"] == {
        "dev.tsv": {"target longer than 2 tokens": 2, "source longer than 4 tokens": 1}
    }
    assert facts["files"][1]["pairs"] == facts["dev"]["references"] == 1
    assert facts["warnings"] == [
        "3 examples left out: 2 x target longer than 2 tokens (first: dev.tsv, line 2), 1 x source longer than 4 "
        "tokens (dev.tsv, line 1); data.json of the run has the rest by reason"
    ]


def test_what_is_held_out_has_the_same_limits(folder: Path) -> None:
    pairs = [(source, target) for source, target in NUMBERS[:100]]
    write_pairs(folder / "train.tsv", pairs)
    whole = prepare(config(dev=None, hold_out=0.4), quiet)
    long = whole.dev[3].source
    write_pairs(folder / "train.tsv", [(source, "1 " * 500 if source == long else target) for source, target in pairs])
    prepared = prepare(config(dev=None, hold_out=0.4), quiet)
    assert [example.source for example in prepared.dev] == [
        example.source for example in whole.dev if example.source != long
    ]
    assert prepared.facts["dropped"]["reasons"] == {"target longer than 200 tokens": 1}
    assert len(prepared.train) == len(whole.train)


def test_a_long_target_is_found_in_the_target_file(folder: Path) -> None:
    (folder / "a.en").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (folder / "a.de").write_text("eins\nzwei zwei zwei\ndrei\n", encoding="utf-8")
    write_pairs(folder / "dev.tsv", [("one", "eins")])
    facts = prepare(config(train=["a.en", "a.de"], source=SHORT, target=SHORT_WORDS), quiet).facts
    assert [(place["file"], place["line"]) for place in facts["dropped"]["places"]] == [("a.de", 2), ("a.en", 3)]


def test_the_warning_names_three_reasons_and_the_rest(folder: Path) -> None:
    bad = "\n" * 3 + "a\t\n" * 2 + "\tb\n" + "one column\n"
    (folder / "train.tsv").write_text("a\tb\n" * 10 + bad, encoding="utf-8")
    write_pairs(folder / "dev.tsv", [("b", "b")])
    facts = prepare(config(source=TextConfig(tokens="words")), quiet).facts
    assert facts["warnings"][0] == (
        "7 examples left out: 3 x empty line (first: train.tsv, line 11), 2 x empty target (first: train.tsv, line "
        "14), 1 x empty source (train.tsv, line 16), 1 for other reasons; data.json of the run has the rest by reason"
    )


def test_unknown_tokens_of_train_are_counted_and_said(folder: Path) -> None:
    write_pairs(folder / "train.tsv", [("aab", "x y"), ("ac", "x x")])
    write_pairs(folder / "dev.tsv", [("aa", "x")])
    data = config(source=TextConfig(column=0, min_count=2), target=TextConfig(column=1, tokens="words", vocabulary=1))
    facts = prepare(data, quiet).facts
    assert facts["train_unknown"] == {"source": 2, "target": 1}
    assert facts["warnings"] == [
        "train.tsv: 2 of 5 source tokens (40.00%) are not in the vocabulary, so the model reads each of them as <unk>; "
        "raise data.source.vocabulary or lower data.source.min_count",
        "train.tsv: 1 of 4 target tokens (25.00%) are not in the vocabulary, so the model can never generate them, "
        "unless it copies them (model.copy with decoding.replace_unknown); raise data.target.vocabulary or lower "
        "data.target.min_count",
    ]
    assert prepare(config(), quiet).facts["train_unknown"] == {"source": 0, "target": 0}


def test_facts_are_whole_and_plain(folder: Path) -> None:
    write_pairs(folder / "train.tsv", [*NUMBERS, ("", "x")])
    write_pairs(folder / "dev.tsv", [("word7", "7"), ("word7", "7 7")])
    facts = prepare(config(), quiet).facts
    assert json.loads(json.dumps(facts)) == facts
    train, dev = facts["files"]
    assert (train["path"], train["lines"], train["pairs"]) == ("train.tsv", 201, 200)
    assert (dev["path"], dev["lines"], dev["pairs"]) == ("dev.tsv", 2, 2)
    assert len(train["sha256"]) == 64
    assert facts["pairs"] == 200
    assert facts["lengths"]["source"] == {"tokens": 1290, "longest": 7, "mean": 6.45}
    assert facts["dropped"]["reasons"] == {"empty source": 1}


def test_chunks_change_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pairs(folder / "train.tsv", NUMBERS)
    write_pairs(folder / "dev.tsv", NUMBERS[:3])
    whole = prepare(config(), quiet)
    monkeypatch.setenv("ANTIPHON_CACHE", str(folder / "other"))
    monkeypatch.setattr(encoding, "CHUNK", 7)
    chunked = prepare(config(), quiet)
    assert np.array_equal(whole.train.target.ids, chunked.train.target.ids)
    assert np.array_equal(whole.train.target.offsets, chunked.train.target.offsets)
    assert whole.facts == chunked.facts


def test_parallel_files_and_data_sets(folder: Path) -> None:
    (folder / "a.en").write_text("one\ntwo\n", encoding="utf-8")
    (folder / "a.de").write_text("eins\nzwei\n", encoding="utf-8")
    prepared = prepare(config(train=["a.en", "a.de"], dev="@copy/dev"), quiet)
    assert texts(prepared) == [("one", "eins"), ("two", "zwei")]
    assert [file["path"] for file in prepared.facts["files"]] == ["a.en", "a.de", "@copy/dev"]
    assert len(prepared.dev) == 500


@pytest.mark.parametrize("tokens", ["bpe", "unigram"])
def test_subwords_come_back_exactly(folder: Path, tokens: str) -> None:
    pairs = [(f" the {number} \u2028 cats ", f"{number} Katzen ") for number in range(50)]
    write_pairs(folder / "train.tsv", pairs)
    write_pairs(folder / "dev.tsv", pairs[:2])
    sides = [TextConfig.model_validate({"column": column, "tokens": tokens, "vocabulary": 300}) for column in (0, 1)]
    data = config(source=sides[0], target=sides[1])
    assert texts(prepare(data, quiet)) == pairs


def test_ragged_rows_and_bounds() -> None:
    ragged = Ragged.of([[1, 2], [], [3]])
    assert [row.tolist() for row in ragged] == [[1, 2], [], [3]]
    assert ragged.lengths.tolist() == [2, 0, 1]
    with pytest.raises(IndexError):
        ragged[3]


def test_ragged_written_in_parts_is_mapped_whole(tmp_path: Path) -> None:
    writer = RaggedWriter(tmp_path, "side")
    for start in range(0, 3000, 100):
        writer.add([[number] * (number % 5) for number in range(start, start + 100)])
    assert writer.finish() == {"tokens": 6000, "longest": 4, "mean": 2.0}
    ragged = Ragged.map(tmp_path, "side")
    assert len(ragged) == 3000
    assert all(ragged[number].tolist() == [number] * (number % 5) for number in range(0, 3000, 37))
    assert np.load(tmp_path / "side.ids.npy").tolist() == ragged.ids.tolist()
