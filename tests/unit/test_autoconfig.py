"""`antiphon init` suggests a configuration for unknown data."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from PIL import Image

from antiphon.autoconfig import suggest
from antiphon.autoconfig.suggest import Suggestion, suggest_config
from antiphon.config.checks import check_config
from antiphon.config.schema import Config
from antiphon.config.yaml_text import explained_yaml, parse_yaml
from antiphon.errors import DataError

WORDS = ["the", "dog", "man", "woman", "runs", "jumps", "over", "under", "green", "field", "while", "two", "people"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def spelling(number: int) -> str:
    """A different short word for each number."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number * 7919 + 1000))


def sentence(number: int, mark: str = "") -> str:
    """Running text: a few common words and rare ones."""
    return " ".join([WORDS[(number * k) % len(WORDS)] for k in range(1, 9)] + [spelling(number) + mark])


def guessed(*files: str) -> Suggestion:
    """The guess, which has to be a sound configuration that reads back equal and has reasons."""
    guess = suggest_config(list(files))
    assert check_config(guess.config) == []
    assert Config.model_validate(parse_yaml(explained_yaml(guess.config), "")[0]) == guess.config
    assert any(reason.startswith("data.target.tokens") for reason in guess.reasons)
    assert any(reason.startswith("training.metric") for reason in guess.reasons)
    return guess


def table(name: str, rows: list[tuple[str, ...]], separator: str = "\t") -> None:
    Path(name).write_text("".join(separator.join(row) + "\n" for row in rows))


def test_a_pronouncing_dictionary_is_letters_to_words() -> None:
    table("train.tsv", [(spelling(n), " ".join(spelling(n).upper())) for n in range(500)])
    config = guessed("train.tsv").config
    assert (config.data.source.tokens, config.data.target.tokens) == ("letters", "words")
    assert config.evaluation.metrics == ["per", "exact_match"]
    assert (config.data.source.column, config.data.target.column, config.data.dev) == (0, 1, None)


def test_sentences_are_shared_sub_words() -> None:
    table("train.tsv", [(sentence(n), sentence(n, "x")) for n in range(500)])
    config = guessed("train.tsv").config
    assert (config.data.source.tokens, config.data.target.tokens) == ("bpe", "bpe")
    assert config.data.shared_vocabulary
    assert config.training.metric == "bleu"
    assert config.data.source.vocabulary > 260


def test_two_scripts_do_not_share_a_vocabulary() -> None:
    greek = str.maketrans("abcdefghijklmnopqrstuvwxyz", "αβγδεζηθικλμνξοπρστυφχψωάέ")
    table("train.tsv", [(sentence(n), sentence(n).translate(greek)) for n in range(300)])
    assert not guessed("train.tsv").config.data.shared_vocabulary


def test_strings_without_spaces_are_characters() -> None:
    table("train.tsv", [(spelling(n), spelling(n)[::-1]) for n in range(300)])
    config = guessed("train.tsv").config
    assert (config.data.source.tokens, config.data.target.tokens) == ("characters", "characters")
    assert config.training.metric == "cer"


def test_few_different_answers_are_classes() -> None:
    table("train.tsv", [(sentence(n), "yes" if n % 3 else "no") for n in range(300)])
    config = guessed("train.tsv").config
    assert config.data.target.tokens == "words"
    assert config.training.metric == "exact_match"


def test_a_header_names_the_columns() -> None:
    table("train.csv", [("id", "target", "source"), *((str(n), spelling(n), sentence(n)) for n in range(100))], ",")
    guess = guessed("train.csv")
    assert (guess.config.data.source.column, guess.config.data.target.column) == ("source", "target")
    assert guess.warnings == ["column 'id' is not used; --source and --target choose others"]


def test_a_first_line_that_is_an_example_is_no_header() -> None:
    table("train.csv", [("x", "z"), *((spelling(n), spelling(n)) for n in range(100))], ",")
    assert guessed("train.csv").config.data.source.column == 0


@pytest.mark.parametrize("first", [("answer", "Antwort"), ("Antwort", "answer"), ("word", "Wort"), ("x", "y")])
def test_a_first_pair_that_has_a_known_name_in_it_is_no_header(first: tuple[str, str]) -> None:
    letters = [("abcdefghij"[n % 10], "klmnopqrst"[n % 10]) for n in range(100)]
    table("train.tsv", [first, *letters])
    data = guessed("train.tsv").config.data
    assert (data.source.column, data.target.column) == (0, 1)


def test_a_name_that_is_also_a_value_is_no_header() -> None:
    table("train.tsv", [("question", "query"), *((spelling(n), spelling(n)) for n in range(50)), ("query", "query")])
    assert guessed("train.tsv").config.data.source.column == 0


@pytest.mark.parametrize("names", [("de", "en"), ("y", "x"), ("Target", "Source")])
def test_known_names_above_longer_values_are_a_header(names: tuple[str, str]) -> None:
    table("train.tsv", [names, *((spelling(n), spelling(n)[::-1]) for n in range(50))])
    data = guessed("train.tsv").config.data
    assert (data.source.column, data.target.column) == (names[1], names[0])


@pytest.mark.parametrize("line", ["stray", "stray\ttab\tmore", "x" * 10_000_000 + "\ty"])
def test_a_stray_first_line_is_no_matter(line: str) -> None:
    Path("train.tsv").write_text(line + "\n" + "".join(f"{spelling(n)}\t{spelling(n)}\n" for n in range(50)))
    data = guessed("train.tsv").config.data
    assert (data.source.column, data.target.column) == (0, 1)


@pytest.mark.parametrize("line", ['"a\rb",c\rd', f'"{"x" * 10_000_000}",y', "x" * 10_000_000 + ",y", '"open,y'])
def test_a_line_that_is_not_csv_is_no_matter(line: str) -> None:
    rows = [f"{spelling(n)},{spelling(n)}\n" for n in range(50)]
    Path("train.csv").write_bytes("".join(["word,phones\n", *rows, line + "\n", *rows]).encode())
    data = guessed("train.csv").config.data
    assert (data.source.column, data.target.column) == ("word", "phones")


def test_jsonl_keys_and_lists_of_references() -> None:
    rows = [{"n": n, "word": spelling(n), "phones": [" ".join(spelling(n)), "a b"]} for n in range(100)]
    Path("train.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    config = guessed("train.jsonl.gz").config
    assert (config.data.source.column, config.data.target.column) == ("word", "phones")
    assert config.data.target.tokens == "words"


def test_parallel_files_with_dev_files_beside_them() -> None:
    for name in ("train.en", "train.de", "valid.en", "valid.de"):
        Path(name).write_text("".join(f"{sentence(n)}\n" for n in range(100)))
    data = guessed("train.en", "train.de").config.data
    assert (data.train, data.dev) == (["train.en", "train.de"], ["valid.en", "valid.de"])


def test_a_dev_file_beside_the_training_file_is_used() -> None:
    Path("train").mkdir()
    table("train/fr.train.tsv", [(spelling(n), spelling(n)) for n in range(50)])
    table("train/fr.dev.tsv", [(spelling(n), spelling(n)) for n in range(50)])
    assert guessed("train/fr.train.tsv").config.data.dev == "train/fr.dev.tsv"


def test_lengths_leave_room_for_what_was_not_seen() -> None:
    table("train.tsv", [(spelling(n), " ".join("abc" * 20)) for n in range(50)])
    config = guessed("train.tsv").config
    assert config.data.target.max_length == 90
    assert config.decoding.max_length == 120


def test_more_pairs_make_a_larger_model() -> None:
    table("small.tsv", [(spelling(n), spelling(n)) for n in range(100)])
    table("large.tsv", [(spelling(n), spelling(n)) for n in range(21_000)])
    small, large = guessed("small.tsv"), guessed("large.tsv")
    assert small.config.model.encoder.size < large.config.model.encoder.size
    assert small.config.training.batch_tokens < large.config.training.batch_tokens
    assert "about 21,000, estimated from the first 20,000" in large.reasons[1]


def test_hangul_is_cut_into_letters() -> None:
    """A syllable has three at most, so there is room for them."""
    table("train.tsv", [(f"{chr(0xAC00 + 37 * n)}국어", f"{spelling(n)}") for n in range(100)])
    found = guessed("train.tsv").config.data
    assert found.text is not None
    assert (found.text.tokens, found.target.tokens) == ("letters", "characters")
    assert found.text.max_length >= 9


def test_a_sentence_may_be_longer_than_a_path() -> None:
    table("train.tsv", [(f"{sentence(n)} " * 10, spelling(n)) for n in range(50)])
    assert guessed("train.tsv").config.data.text is not None


def test_questions_beside_lines_of_text() -> None:
    for number in range(20):
        Image.new("L", (120, 20), number).save(f"{number}.png")
    rows = [
        (f"{number}.png", f"what is written {'here' if number % 2 else 'there'}", spelling(number))
        for number in range(20)
    ]
    table("train.tsv", [("image", "question", "answer"), *rows])
    model = guessed("train.tsv").config.model
    assert [front and front.kind for front in model.front] == ["cells", None]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.tsv", "one\ntwo\n", "a.tsv: one column only, no tabs in its first line"),
        (
            "a.tsv",
            "one,two\nthree,four\n",
            "a.tsv: no tabs in its first lines, but ',' in every line; rename it to .csv",
        ),
        ("a.txt", "one ||| two\n", "replace ' ||| ' by tabs"),
        ("a.json", "[]", "a.json: two keys with text are needed, found none"),
        (
            "a.csv",
            '\n"one,two\n',
            "a.csv, line 2: a quote is not closed, and the other lines are no better; correct the file",
        ),
        ("a.jsonl", '{"source": "a"}\n', "a.jsonl: two keys with text are needed, found only source"),
        ("a.jsonl", '{"translation": {"en": "a"}}\n', "two keys with text are needed, found only translation.en"),
        ("a.jsonl", "nonsense\n", "a.jsonl: two keys with text are needed, found none"),
        ("a.tsv", "a\t\n\tb\n", "a.tsv: no usable pair (1 x empty target, 1 x empty source)"),
        ("a.tsv", "", "a.tsv: the file is empty"),
        ("a.tsv", "\n \n", "a.tsv: one column only"),
    ],
)
def test_data_that_cannot_be_guessed(name: str, text: str, words: str) -> None:
    Path(name).write_text(text)
    with pytest.raises(DataError) as caught:
        suggest_config([name])
    assert words in str(caught.value)


def test_names_are_learnt_line_by_line() -> None:
    Path("names.txt").write_text("".join(f"{spelling(n)}\n" for n in range(400)))
    guess = guessed("names.txt")
    config = guess.config
    assert (config.model.kind, config.data.source, config.data.window) == ("language-model", None, None)
    assert (config.data.target.tokens, config.data.target.column) == ("characters", 0)
    assert (config.training.metric, config.decoding.beam) == ("loss", 1)
    assert config.evaluation.metrics == ["perplexity", "bits_per_character"]
    assert guess.reasons[0] == (
        "plain text in one column: a language model; for pairs put source TAB target on each line"
    )
    assert any("so 10% of the texts (at most 2,000) are held out" in reason for reason in guess.reasons)


def test_running_text_is_a_stream_of_characters_or_if_long_of_sub_words() -> None:
    Path("train.txt").write_text("".join(f"{sentence(n)}{',' * (n % 3 + 1)}\n\n" for n in range(300)))
    Path("dev.txt").write_text("some, text\n")
    config = guessed("train.txt").config
    assert (config.model.kind, config.data.target.tokens, config.data.window) == ("language-model", "characters", 128)
    assert config.data.dev == "dev.txt"
    Path("long.txt").write_text("".join(f"{sentence(n)} {sentence(n + 1)}\n" for n in range(70_000)))
    config = guessed("long.txt").config
    assert (config.data.target.tokens, config.data.window) == ("bpe", 128)


def test_what_looks_like_columns_is_no_plain_text() -> None:
    Path("pairs.txt").write_text("".join(f"{spelling(n)}\t{sentence(n)}\n" for n in range(50)))
    assert guessed("pairs.txt").config.model.kind == "encoder-decoder"
    Path("table.txt").write_text("".join(f"{spelling(n)};{sentence(n)}\n" for n in range(50)))
    assert guessed("table.txt").config.model.kind == "encoder-decoder"


PAIRS = [{"en": sentence(n), "de": sentence(n, "x")} for n in range(50)]


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("pairs.json", json.dumps(PAIRS), ("en", "de")),
        ("pairs.json", json.dumps({"data": PAIRS}, indent=1), ("en", "de")),
        ("pairs.ndjson", "\n".join(json.dumps({"in": pair}) for pair in PAIRS), ("in.en", "in.de")),
        ("pairs.csv", "en;de\n" + "\n".join(f"{pair['en']};{pair['de']}" for pair in PAIRS), ("en", "de")),
        ("pairs.csv", "\n".join(f"{pair['en']}\t{pair['de']}" for pair in PAIRS), (0, 1)),
        ("a.jsonl", "\n".join(json.dumps({"class": n % 3, "en": sentence(n)}) for n in range(50)), ("en", "class")),
    ],
)  # fmt: skip
def test_every_format_has_its_columns(name: str, text: str, columns: tuple[int | str, int | str]) -> None:
    Path(name).write_text(text)
    config = guessed(name).config
    assert config.model.kind == "encoder-decoder"
    assert (config.data.source.column, config.data.target.column) == columns


@pytest.mark.parametrize("lines", [["Hear me, all."], ["Hear me, all.", "", "Speak, speak."] * 6])
def test_a_comma_in_each_of_a_few_lines_is_prose(lines: list[str]) -> None:
    Path("prose.txt").write_text("".join(f"{line}\n" for line in lines))
    assert guessed("prose.txt").config.model.kind == "language-model"


def test_of_a_stream_the_last_lines_are_held_out() -> None:
    Path("play.txt").write_text("".join(f"{sentence(n)}\n" for n in range(300)))
    [reason] = [reason for reason in guessed("play.txt").reasons if reason.startswith("data.dev")]
    assert reason == (
        "data.dev null: no file beside it is called dev, so the last 10% of the lines (at most 2,000) are held out"
    )


def test_a_long_count_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggest, "LARGE", 100)
    Path("pairs.json").write_text(json.dumps([{"source": spelling(n), "target": spelling(n)} for n in range(50)]))
    table("pairs.tsv", [(spelling(n), spelling(n)) for n in range(50)])
    said: list[str] = []
    for name in ("pairs.json", "pairs.tsv"):
        suggest_config([name], say=said.append)
    assert said == ["pairs.json: reading the whole file (0 MB) to count its examples"]
