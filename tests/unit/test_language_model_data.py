"""Plain text as data: lines, streams, what is held out, what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.config.checks import check_config
from antiphon.config.schema import Config, DataConfig
from antiphon.data.pairs import DropLog, Example, Pair, group, read_pairs
from antiphon.data.prepare import Prepared, prepare
from antiphon.data.subwords import train_subwords
from antiphon.data.tokenizers import EOS, UNK, CharacterTokenizer, StreamTokenizer, Tokenizer, WordTokenizer, line_end
from antiphon.errors import DataError

PLAY = ["First Citizen:", "Before we proceed, hear me.", "", "All:", "Speak,\tspeak. ", "", "All:"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / "cache"))


def quiet(_: str) -> None: ...


def config(**data: Any) -> Config:  # noqa: ANN401 - any key of data
    return Config.model_validate({"data": {"train": "a.txt", **data}, "model": {"kind": "language-model"}})


def write(name: str, lines: list[str]) -> str:
    Path(name).write_text("".join(f"{line}\n" for line in lines))
    return name


def texts_of(name: str, **data: Any) -> tuple[list[Pair], DropLog]:  # noqa: ANN401 - any key of data
    dropped = DropLog()
    return list(read_pairs(name, config(**data).data, dropped)), dropped


def texts(prepared: Prepared) -> list[str]:
    tokenizer = StreamTokenizer(prepared.target_tokenizer)
    return [tokenizer.decode(row.tolist()) for row in (prepared.train.target[n] for n in range(len(prepared.train)))]


def test_a_language_model_needs_no_word_about_its_data() -> None:
    found = config()
    assert (found.data.source, found.data.target.column, found.data.window) == (None, 0, None)
    assert found.evaluation.metrics == ["perplexity", "bits_per_character"]
    assert check_config(found) == []


@pytest.mark.parametrize("name", ["a.txt", "a", "a.text", "a.md"])
def test_plain_text_is_one_text_a_line_tabs_and_all(name: str) -> None:
    found, dropped = texts_of(write(name, PLAY))
    assert found == [Pair((), line, number) for number, line in enumerate(PLAY, 1) if line]
    assert dropped.reasons == {"empty line": 2}
    assert [place.line for place in dropped.listed] == [3, 6]


def test_in_a_stream_an_empty_line_is_a_line() -> None:
    found, dropped = texts_of(write("a.txt", PLAY), window=8)
    assert [pair.target for pair in found] == PLAY
    assert dropped.total == 0


def test_of_a_table_the_column_of_the_target_is_taken() -> None:
    write("a.tsv", ["x\tone", "y\ttwo", "z\t "])
    found, dropped = texts_of("a.tsv", target={"column": 1})
    assert [pair.target for pair in found] == ["one", "two"]
    assert dropped.reasons == {"empty text": 1}
    write("a.csv", ["name,text", '1,"a, b"'])
    assert [pair.target for pair in texts_of("a.csv", target={"column": "text"})[0]] == ["a, b"]
    write("a.jsonl", [json.dumps({"text": text}) for text in ("one", ["two", "three"])])
    found, _ = texts_of("a.jsonl", target={"column": "text"})
    assert found == [Pair((), "one", 1), Pair((), "two", 2), Pair((), "three", 2)]


def test_what_a_plain_file_cannot_have() -> None:
    write("a.txt", PLAY)
    with pytest.raises(DataError, match=r"plain text has no columns, but data.target.column is 1; set it to 0"):
        texts_of("a.txt", target={"column": 1})
    with pytest.raises(DataError, match=r"a.txt and b.txt: a language model reads one file of texts"):
        list(read_pairs(["a.txt", "b.txt"], config().data, DropLog()))


def test_how_often_a_text_is_said_counts() -> None:
    assert group([Pair((), "a", 1), Pair((), "b", 2), Pair((), "a", 3)]) == [
        Example((), ("a",), 1), Example((), ("b",), 2), Example((), ("a",), 3)
    ]  # fmt: skip


def test_lines_are_prepared_and_come_back() -> None:
    write("a.txt", PLAY)
    write("dev.txt", ["All:", "All we hear", "All:", "Zed"])
    prepared = prepare(config(dev="dev.txt").data, quiet)
    assert texts(prepared) == [line for line in PLAY if line]
    assert prepared.source_tokenizer.fingerprint == prepared.target_tokenizer.fingerprint
    assert prepared.train.source.lengths.tolist() == [0] * 5
    assert [example.references for example in prepared.dev] == [("All:",), ("All we hear",), ("All:",), ("Zed",)]
    facts = prepared.facts
    assert (facts["texts"], facts["dev"], facts["dev_overlap"]) == (5, {"texts": 4, "held_out": False}, 2)
    assert set(facts["lengths"]) == set(facts["vocabulary"]) == set(facts["train_unknown"]) == {"text"}
    assert "pairs" not in json.dumps(facts)
    assert facts["warnings"][1:] == [
        "dev.txt: 2 of 4 dev texts are also in train, so dev results look too good; take them out of a.txt, or set "
        "data.dev to null to hold other examples out",
        "dev.txt: 1 symbol of the dev texts is not in the vocabulary (1 time): 'Z'; check that dev is spelt like "
        "train, or add training examples with them",
    ]
    assert texts(prepare(config(dev="dev.txt").data, quiet)) == texts(prepared)  # from the cache


def test_too_rare_and_too_long() -> None:
    write("a.txt", ["a a a", "a b", "a a a a"])
    write("dev.txt", ["a"])
    data = config(dev="dev.txt", target={"tokens": "words", "min_count": 2, "max_length": 3}).data
    facts = prepare(data, quiet).facts
    assert facts["dropped"]["reasons"] == {"text longer than 3 tokens": 1}
    assert facts["warnings"][1] == (
        "a.txt: 1 of 5 text tokens (20.00%) are not in the vocabulary, so to the model they are all <unk>; raise "
        "data.target.vocabulary or lower data.target.min_count"
    )


def test_lines_are_held_out_by_the_hash_of_the_text() -> None:
    lines = [f"line {number // 2}" for number in range(200)]  # each twice
    write("a.txt", lines)
    first = prepare(config(hold_out=0.1).data, quiet)
    held = [example.references[0] for example in first.dev]
    assert len(held) == 20
    assert len(set(held)) == 10
    assert set(held).isdisjoint(texts(first))
    write("a.txt", sorted(lines, reverse=True))
    again = prepare(config(hold_out=0.1).data, quiet)
    assert {example.references[0] for example in again.dev} == set(held)


def test_of_a_stream_the_end_is_held_out() -> None:
    lines = [f"line {number}" for number in range(100)]
    write("a.txt", lines)
    prepared = prepare(config(hold_out=0.1, window=8).data, quiet)
    assert [example.references[0] for example in prepared.dev] == lines[90:]
    assert texts(prepared) == [f"{line}\n" for line in lines[:90]]
    with pytest.raises(DataError, match="one line only, so none can be held out"):
        prepare(config(train=write("b.txt", ["one line"]), window=8).data, quiet)


def tokenizer_of(kind: str) -> Tokenizer:
    if kind == "characters":
        return CharacterTokenizer("".join(sorted(set("".join(PLAY)))) + "\n")
    if kind == "words":
        return WordTokenizer(sorted({word for line in PLAY for word in line.split()}))
    data = DataConfig.model_validate({"train": "a", "target": {"tokens": kind, "vocabulary": 300}})
    return train_subwords(PLAY, data.target, "data.target")


@pytest.mark.parametrize("kind", ["characters", "words", "bpe", "unigram"])
def test_a_stream_comes_back_from_its_tokens(kind: str) -> None:
    lines = tokenizer_of(kind)
    stream = StreamTokenizer(lines)
    end = line_end(lines)
    assert (end == EOS) == (kind != "characters")
    assert stream.encode("\n") == [end]
    for text in ("", "\n\n", "All:\n\nAll:", "All:\n", "\nSpeak, All:", "Before we proceed, hear me."):
        ids = stream.encode(text)
        assert ids.count(end) == text.count("\n")
        assert UNK not in ids
        assert stream.decode(ids) == text
        assert stream.unknown(text) == []
    assert stream.encode_batch(["All:", "", "All:\n"]) == [stream.encode(text) for text in ("All:", "", "All:\n")]


@pytest.mark.parametrize("kind", ["characters", "words", "bpe"])
def test_the_stream_of_a_corpus_is_the_file(kind: str) -> None:
    write("a.txt", PLAY)
    write("dev.txt", ["All:"])
    prepared = prepare(config(dev="dev.txt", window=4, target={"tokens": kind, "vocabulary": 300}).data, quiet)
    stream = StreamTokenizer(prepared.target_tokenizer)
    said = stream.decode(prepared.train.target.ids.tolist())
    spoken = [" ".join(line.split()) for line in PLAY] if kind == "words" else PLAY
    assert said == "".join(f"{line}\n" for line in spoken)
    assert prepared.facts["dropped"]["total"] == 0


@pytest.mark.parametrize("target", [{"vocabulary": 1}, {"vocabulary": 12}, {"min_count": 4}])
def test_a_stream_of_characters_always_knows_its_line_end(target: dict[str, int]) -> None:
    """However rare it is: were it <unk>, <unk> would be read and written."""
    lines = ["Before we proceed any further, hear me speak, said the first citizen."] * 3
    write("a.txt", lines)
    write("dev.txt", ["All:"])
    prepared = prepare(config(dev="dev.txt", window=4, target={"tokens": "characters", **target}).data, quiet)
    tokenizer = prepared.target_tokenizer
    assert tokenizer.size <= 4 + target.get("vocabulary", 100)
    assert line_end(tokenizer) != UNK
    assert prepared.train.target.ids.tolist().count(line_end(tokenizer)) == len(lines)
    assert StreamTokenizer(tokenizer).decode([line_end(tokenizer)]) == "\n"


def test_nothing_but_empty_lines_is_told_to_have_texts() -> None:
    write("a.txt", ["", " "])
    with pytest.raises(DataError, match=r"a.txt: nothing to learn from \(2 x empty line\); put one text on each line"):
        prepare(config().data, quiet)
