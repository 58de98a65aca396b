"""Headers, and the choice of columns: by evidence, by names, and by --source and --target."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from antiphon.autoconfig.column_kinds import ColumnSample
from antiphon.autoconfig.column_names import language_of, role_of
from antiphon.autoconfig.columns import Columns, find_columns
from antiphon.autoconfig.suggest import suggest_config
from antiphon.config.checks import check_config
from antiphon.errors import DataError, UserError

ZOO = Path(__file__).parents[1] / "data_zoo"
WORDS = "red blue green white black round square long short tall wide small".split()  # noqa: SIM905
SENTENCES = [f"a {word} thing is near the {other} box" for word, other in zip(WORDS, WORDS[::-1], strict=True)]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def columns_of(
    rows: list[tuple[str, ...]], source: list[str] | None = None, target: list[str] | None = None
) -> Columns:
    Path("table.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    return find_columns(Path("table.tsv"), "table.tsv", source or [], target or [])


# Headers.


@pytest.mark.parametrize("name", [path.name for path in sorted(ZOO.iterdir()) if path.suffix in (".tsv", ".csv")])
def test_no_example_of_the_zoo_is_a_header(name: str) -> None:
    """Whichever row comes first; the header of a file, if it has one, is not among them."""
    try:
        header = find_columns(ZOO / name, name).header
        lines = (ZOO / name).read_text("utf-8").splitlines(keepends=True)
    except (DataError, UnicodeDecodeError):
        return
    odd = ("source\ttarget\n", "last\tzuletzt\n")  # a late header, and a pair of words above sentences
    rows = [line for line in lines[int(header) :] if line not in odd]
    for first, row in enumerate(rows):
        Path(name).write_text("".join([row, *rows[:first], *rows[first + 1 :]]), "utf-8")
        assert not find_columns(Path(name), name).header, row


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (("a", "b", "sum"), [("3", "4", "7"), ("10", "2", "12"), ("5", "5", "10")]),
        (("汉字", "拼音", "意思"), [("猫", "māo", "cat"), ("狗", "gǒu", "dog"), ("水", "shuǐ", "water")]),
        (("Wort", "Aussprache (IPA)"), [("Haus", "haʊ̯s"), ("Baum", "baʊ̯m"), ("Wolke", "ˈvɔlkə")]),
        (("when", "who"), [("2024-01-02", "Ann"), ("2024-02-11", "Ben"), ("2023-12-01", "Cem")]),
        (("clean_text", "noisy_text"), [("good day", "goood day"), ("see you", "sea you"), ("thanks", "thnks")]),
        (("question", "answer"), [("who is it", "me")]),
    ],
)
def test_headers_of_small_tables(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    assert columns_of([header, *rows]).header
    if len(rows) > 1:
        assert not columns_of(rows).header


@pytest.mark.parametrize(
    "rows",
    [
        [("it", "es"), ("to", "zu"), ("tree", "Baum"), ("house", "Haus")],  # two codes of languages
        [("USB", "USB"), ("monitor", "монитор"), ("mouse", "мышь"), ("keyboard", "клавиатура")],
        [("1999", "nineteen ninety nine"), ("2004", "two thousand four"), ("1815", "eighteen fifteen")],
        [("n/a", "unknown"), ("12", "twelve"), ("40", "forty"), ("8", "eight")],
    ],
)
def test_first_examples_that_differ_a_little(rows: list[tuple[str, ...]]) -> None:
    assert not columns_of(rows).header


def test_a_name_given_by_the_user_makes_a_header() -> None:
    rows = [("Haus", "Baum"), *zip(WORDS, WORDS[::-1], strict=True)]
    assert not columns_of(rows).header
    columns = columns_of(rows, ["Baum"], ["Haus"])
    assert (columns.header, columns.sources, columns.target) == (True, ["Baum"], "Haus")


def test_a_header_without_names_of_its_own_is_written_down() -> None:
    """Numbers alone would make an example of it."""
    rows = [(sentence, word, str(n)) for n, (sentence, word) in enumerate(zip(SENTENCES, WORDS, strict=True))]
    config = columns_of([("sentence", "sentence", "id"), *rows]).data_config("table.tsv", None)
    assert (config.header, config.source.column, config.target.column) == (True, 0, 1)


# Names and kinds.


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("Source", "source"), ("source_text", "source"), ("gold_label", "target"), ("captionID", "id"),
        ("tgt_lang", "other"), ("translation.en", "target"), ("answer-3", "target"), ("Unnamed: 0", ""),
        ("en_sentence", "source"), ("Hund", ""),
        ("What do you like to eat?", ""), ("Frage", "source"), ("Русский", "language"),
    ],
)  # fmt: skip
def test_roles_of_names(name: str, role: str) -> None:
    assert role_of(name) == role


def test_languages_by_name() -> None:
    assert [language_of(name) for name in ("Englisch", "translation.de", "It is", "日本語", "en")] == [
        "en",
        "de",
        "",
        "ja",
        "en",
    ]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("running", ["1", "2", "3", "4", "5", "8", "9"]),
        ("number", ["1.5", "-3", "4,000.25", "12 %"]),
        ("number", ["$3.99", "€ 20", "7.50"]),
        ("date", ["2021-05-03", "2020-12-24", "1999-01-01"]),
        ("date", ["3 May 2021", "12. Juli 1999", "May 4, 2018"]),
        ("date", ["12:30", "08:15:59", "7:05 pm"]),
        ("id", ["train-001", "train-002", "train-117"]),
        ("id", ["0c9a7e21bf", "9d1f33aa07", "77ab01cd9e"]),
        ("url", ["https://example.org/a", "www.example.com", "http://example.net"]),
        ("constant", ["en", "en", "en"]),
        ("empty", ["", "", "x"]),
        ("label", ["pos", "neg", "pos", "neg", "neg"]),
        ("features-of-words", ["V;PST", "N;NOM;SG", "V;PRS;3;SG"]),
        ("features-of-words", ["Case=Nom|Number=Sing", "Case=Gen", "Tense=Past"]),
        ("text", ["12+7", "3+44", "90-8"]),
        ("text", ["H2O", "C6H12O6", "NaCl"]),
        ("text", ["one", "two", "three"]),
    ],
)
def test_kinds_of_columns(kind: str, values: list[str]) -> None:
    assert ColumnSample(0, "", values).kind == kind


# Choices that need no file of the zoo.


def test_a_remark_says_why_the_form_is_the_target() -> None:
    assert find_columns(ZOO / "sigmorphon.tsv", "sigmorphon.tsv").reason == (
        "no header in the first line: column 0 and column 2 are the sources, column 1 the target; words with "
        "grammatical features, so the form is the target"
    )


def test_running_numbers_are_the_content_if_there_is_nothing_else() -> None:
    columns = columns_of([(str(n), word) for n, word in enumerate(WORDS)])
    assert (columns.sources, columns.target, columns.warnings) == ([0], 1, [])


def test_a_score_before_sentences_is_the_target() -> None:
    texts = [line.split("\t")[0] for line in (ZOO / "classes.tsv").read_text("utf-8").splitlines()]
    columns = columns_of([(f"0.{91 - n}", text) for n, text in enumerate(texts)])
    assert (columns.sources, columns.target) == ([1], 0)


def test_labels_in_every_place() -> None:
    rows = [(sentence, ("good", "bad")[n % 2]) for n, sentence in enumerate(SENTENCES)]
    assert (columns_of(rows).sources, columns_of(rows).target) == ([0], 1)
    turned = columns_of([row[::-1] for row in rows])
    assert (turned.sources, turned.target) == ([1], 0)


def test_a_file_that_is_sorted_by_its_labels() -> None:
    rows = [(sentence, sentence[::-1], "yes") for sentence in SENTENCES]
    columns = columns_of([("sentence1", "sentence2", "label"), *rows])
    assert (columns.sources, columns.target) == (["sentence1", "sentence2"], "label")


# The user's choice.

TABLE = [("id", "text", "label", "extra"), *((f"a-{n}", s, "xy"[n % 2], f"{s} {n}") for n, s in enumerate(SENTENCES))]


@pytest.mark.parametrize(
    ("source", "target", "sources", "targets"),
    [
        (["extra"], [], ["extra"], "label"),
        (["3"], ["1"], ["extra"], "text"),
        (["text", "extra"], ["label"], ["text", "extra"], "label"),
        (["text"], ["label", "extra"], ["text"], ["label", "extra"]),
        ([], ["extra"], ["text"], "extra"),
        (["id"], ["text"], ["id"], "text"),
    ],
)
def test_the_user_chooses(source: list[str], target: list[str], sources: list[str], targets: str | list[str]) -> None:
    columns = columns_of(TABLE, source, target)
    assert (columns.sources, columns.target) == (sources, targets)
    suggestion = suggest_config(["table.tsv"], source, target)
    assert check_config(suggestion.config) == []
    assert [column.column for column in suggestion.config.data.sources] == sources
    used = {*sources, *([targets] if isinstance(targets, str) else targets)}
    assert all((f"'{name}'" in suggestion.warnings[0]) == (name not in used) for name in TABLE[0])


def test_the_user_chooses_a_key() -> None:
    rows = [{"title": s, "body": s[::-1], "n": n} for n, s in enumerate(SENTENCES)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = suggest_config(["rows.jsonl"], ["body"], ["title"]).config.data
    assert (data.source.column, data.target.column) == ("body", "title")


def test_a_list_of_texts_is_a_target() -> None:
    rows = [{"ways": [s, s[::-1]], "plain": s[2:]} for s in SENTENCES]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = find_columns(Path("rows.jsonl"), "rows.jsonl")
    assert (columns.sources, columns.target) == (["plain"], "ways")
    with pytest.raises(DataError) as caught:
        find_columns(Path("rows.jsonl"), "rows.jsonl", ["ways"], ["plain"])
    assert "'ways' has lists of texts, which only a target can be" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (
            ["txt"],
            [],
            "table.tsv: no column 'txt' for --source; did you mean 'text'? it has 'id', 'text', 'label', 'extra'",
        ),
        (["text"], ["9"], "table.tsv: no column '9' for --target; it has 'id', 'text', 'label', 'extra'"),
        (["text", "1"], ["label"], "table.tsv: a column is given twice; name each --source once"),
    ],
)
def test_a_choice_that_is_not_there(source: list[str], target: list[str], words: str) -> None:
    with pytest.raises(DataError) as caught:
        columns_of(TABLE, source, target)
    assert str(caught.value) == words


def test_two_files_have_no_columns_to_choose() -> None:
    with pytest.raises(UserError) as caught:
        suggest_config(["a.en", "a.de"], ["0"])
    assert "--source and --target choose columns of one table" in str(caught.value)


# Tables with files.


@pytest.fixture
def files() -> None:
    for folder in ("features", "image", "video"):
        Path(folder).mkdir()
    for n in range(12):
        np.save(f"features/{n}.npy", np.zeros((5, 3), "float32"))
        Image.new("RGB", (8, 8), (n, 0, 0)).save(f"image/{n}.png")
        Path(f"video/{n}").mkdir()
        Image.new("RGB", (8, 8)).save(f"video/{n}/0.png")


FILES = {"features": "features/{}.npy", "image": "image/{}.png", "video": "video/{}"}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("folder", "kind"), [("features", "features"), ("image", "image"), ("video", "frames")])
def test_a_column_called_like_a_folder_beside_it(folder: str, kind: str) -> None:
    rows = [(FILES[folder].format(n), word) for n, word in enumerate(WORDS)]
    columns = columns_of([(folder, "text"), *rows])
    assert (columns.header, columns.kinds, columns.sources, columns.target) == (True, [kind], [folder], "text")
    bare = columns_of(rows)
    assert (bare.header, bare.kinds, bare.sources, bare.target) == (False, [kind], [0], 1)
    assert check_config(suggest_config(["table.tsv"]).config) == []


@pytest.mark.usefixtures("files")
def test_files_beside_texts_and_numbers() -> None:
    rows = [(str(n), f"image/{n}.png", "40", f"{s}?", WORDS[n % 3]) for n, s in enumerate(SENTENCES)]
    columns = columns_of([("id", "image", "width", "question", "answer"), *rows])
    assert (columns.kinds, columns.sources, columns.target) == (["image", "text"], ["image", "question"], "answer")
    assert columns.warnings == ["columns 'id', 'width' are not used; --source and --target choose others"]
    asked = columns_of([("id", "image", "width", "question", "answer"), *rows], ["question", "image"], ["answer"])
    assert (asked.kinds, asked.sources) == (["image", "text"], ["image", "question"])
    alone = suggest_config(["table.tsv"], ["question"], ["answer"]).config.data
    assert (alone.source.kind, alone.source.column) == ("text", "question")


@pytest.mark.usefixtures("files")
def test_several_captions_are_references() -> None:
    rows = [(f"image/{n}.png", s, s[2:], s[::-1]) for n, s in enumerate(SENTENCES)]
    columns = columns_of([("image", "caption1", "caption2", "caption3"), *rows])
    assert columns.target == ["caption1", "caption2", "caption3"]


@pytest.mark.usefixtures("files")
def test_one_of_two_columns_of_files() -> None:
    table = [("image", "features", "text"), *((f"image/{n}.png", f"features/{n}.npy", w) for n, w in enumerate(WORDS))]
    assert columns_of(table).warnings == ["column 'features' is not used; --source and --target choose others"]
    assert columns_of(table, ["features"]).kinds == ["features"]
    with pytest.raises(DataError) as caught:
        columns_of(table, ["image", "features"])
    assert "several columns of files; choose one with --source" in str(caught.value)
    with pytest.raises(DataError) as caught:
        columns_of(table, ["text"], ["image"])
    assert "the column 'image' has paths of images, but a target is text" in str(caught.value)


def test_a_list_of_numbers_is_no_answer_and_a_whole_name_comes_first() -> None:
    rows = [
        {
            "context": text,
            "question": f"what is near box {n} ?",
            "answers": {"answer_start": [n], "text": [text.split()[1]]},
        }
        for n, text in enumerate(SENTENCES)
    ]
    Path("squad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = find_columns(Path("squad.jsonl"), "squad.jsonl")
    assert (found.sources, found.target) == (["context", "question"], "answers.text")
    labels = [
        ("text", "activity_label", "label"),
        *((text, "ab"[n % 2], "cd"[n % 2]) for n, text in enumerate(SENTENCES)),
    ]
    assert columns_of(labels).target == "label"


def test_keys_that_hold_no_text_are_named() -> None:
    Path("chat.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    with pytest.raises(DataError, match=r"two keys with text are needed, found none \(no text in 'messages'\)"):
        find_columns(Path("chat.jsonl"), "chat.jsonl")
