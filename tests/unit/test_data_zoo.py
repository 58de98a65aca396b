"""`antiphon init` and the zoo: small files as strangers have them, and what has to be chosen in each."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from antiphon.autoconfig.suggest import suggest_config
from antiphon.config.checks import check_config
from antiphon.data.pairs import DropLog, read_pairs
from antiphon.errors import DataError

ZOO = Path(__file__).parents[1] / "data_zoo"
LANGUAGE_MODEL: list[int | str] = []


class Chosen(NamedTuple):
    """The columns that have to be chosen, the pairs that training reads, and a fragment of each warning."""

    file: str
    sources: list[int | str]
    target: int | str | list[int | str]
    pairs: int
    warnings: tuple[str, ...] = ()


def unused(*columns: str) -> tuple[str, ...]:
    """The warning that names columns which are not used."""
    noun = f"column {columns[0]} is" if len(columns) == 1 else f"columns {', '.join(columns)} are"
    return (f"{noun} not used; --source and --target choose others",)


DOUBT = ("is read as an example; if it is a header",)

CHOSEN = [
    # A header, and two columns of text beside others.
    Chosen("languages.csv", ["English"], "Russian", 12),
    Chosen("running-id.tsv", ["English"], "Russian", 12, unused("'id'")),
    Chosen("german-header.csv", ["Deutsch"], "Französisch", 12),
    Chosen("deutsch-englisch.tsv", ["Englisch"], "Deutsch", 12),
    Chosen("frage-antwort.tsv", ["Frage"], "Antwort", 10),
    Chosen("russian-header.tsv", ["слово"], "перевод", 12),
    Chosen("chinese-header.csv", ["原文"], "译文", 12, unused("'编号'")),
    Chosen("faq.csv", ["Question"], "Answer", 10),
    Chosen("sql.csv", ["question"], "sql", 12),
    Chosen("scored.tsv", ["English"], "German", 12, unused("'score'")),
    Chosen("comments.csv", ["source"], "target", 12, unused("'notes'")),
    Chosen("prices.csv", ["product"], "Produkt", 12, unused("'price'")),
    Chosen("uuid.csv", ["source"], "target", 12, unused("'uuid'")),
    Chosen("urls.tsv", ["article"], "headline", 8, unused("'url'")),
    Chosen("vocabulary.csv", ["word"], "translation", 12, unused("'part of speech'", "'example'")),
    Chosen("word-pos.tsv", ["word"], "pos", 8),
    Chosen("singular-plural.tsv", ["Singular"], "Mehrzahlform", 12),
    Chosen("unknown-names.tsv", ["Ausgangstext"], "Zieltext", 11),
    Chosen("header-spaces.csv", ["word"], "phones", 12),
    Chosen("windows.tsv", ["word"], "plural", 12),
    Chosen("trailing-tabs.tsv", ["source"], "target", 12),
    Chosen("bom.csv", ["word"], "meaning", 12),
    # A header, and labels.
    Chosen("kaggle.csv", ["text"], "label", 12, unused("'id'")),
    Chosen("kaggle-numbers.csv", ["text"], "target", 12, unused("'id'")),
    Chosen("pandas-index.csv", ["review"], "sentiment", 12, unused("0")),
    Chosen("label-first.tsv", ["text"], "label", 12),
    Chosen("dated.csv", ["review"], "sentiment", 12, unused("'timestamp'")),
    Chosen("stars.csv", ["review"], "stars", 12),
    # A header, and several sources or references.
    Chosen("nli.tsv", ["premise", "hypothesis"], "label", 12),
    Chosen("small-header.tsv", ["premise", "hypothesis"], "label", 3),
    Chosen("nli-ids.tsv", ["sentence1", "sentence2"], "gold_label", 12, unused("'pairID'")),
    Chosen("glue-order.tsv", ["sentence1", "sentence2"], "label", 12),
    Chosen("similarity.tsv", ["sentence1", "sentence2"], "score", 12),
    Chosen("duplicate-names.tsv", [0, 1], "label", 12),
    Chosen("reading.tsv", ["passage", "question"], "answer", 8),
    Chosen("squad-like.csv", ["context", "question"], "answer_text", 8, unused("'id'", "'title'")),
    Chosen("features-header.csv", ["lemma", "features"], "form", 10),
    Chosen("references.tsv", ["prompt"], ["reference_0", "reference_1"], 6),
    # No header.
    Chosen("wordlist.tsv", [0], 1, 12, DOUBT),
    Chosen("wordlist-five.tsv", [0], 1, 5, DOUBT),
    Chosen("wordlist-russian.csv", [0], 1, 12, DOUBT),
    Chosen("first-is-capital.tsv", [0], 1, 13, DOUBT),
    Chosen("two-rows.tsv", [0], 1, 2),
    Chosen("memory.tsv", [0], 1, 12),
    Chosen("sorted.tsv", [0], 1, 14),
    Chosen("attribution.tsv", [0], 1, 12, unused("2")),
    Chosen("three-languages.tsv", [0], 1, 12, unused("2")),
    Chosen("phrasebook.tsv", [0], 1, 12, unused("2")),
    Chosen("codes.tsv", [1], 2, 12, unused("0")),
    Chosen("anki.txt", [0], 1, 12, unused("2")),
    Chosen("vocabulary-bare.tsv", [0], 1, 12, unused("2")),
    Chosen("late-header.tsv", [0], 1, 13, ("line 2 (source, target) looks like a header",)),
    Chosen("g2p.tsv", [0], 1, 12),
    Chosen("g2p-ipa.tsv", [0], 1, 10),
    Chosen("sigmorphon.tsv", [0, 2], 1, 10),
    Chosen("inflection.tsv", [0, 1], 2, 10),
    Chosen("own-tags.tsv", [0, 1], 2, 10),
    Chosen("past.tsv", [0], 1, 12),
    Chosen("arithmetic.tsv", [0], 1, 12),
    Chosen("arithmetic-numbered.tsv", [1], 2, 12, unused("0")),
    Chosen("dates.tsv", [0], 1, 10),
    Chosen("iso-dates.tsv", [0], 1, 10),
    Chosen("roman.tsv", [0], 1, 12),
    Chosen("to-roman.tsv", [0], 1, 12),
    Chosen("formulas.csv", [0], 1, 10),
    Chosen("emoji.tsv", [0], 1, 10),
    Chosen("japanese.tsv", [0], 1, 8),
    Chosen("arabic.tsv", [0], 1, 8),
    Chosen("dialogue.tsv", [0], 1, 8),
    Chosen("nli-bare.tsv", [0, 1], 2, 12),
    Chosen("reading-bare.tsv", [0, 1], 2, 8),
    Chosen("classes.tsv", [0], 1, 12),
    Chosen("quoted-commas.csv", [0], 1, 12),
    Chosen("ragged.tsv", [0], 1, 10),
    Chosen("blank-lines.csv", [0], 1, 12, DOUBT),
    # JSONL.
    Chosen("alpaca.jsonl", ["instruction", "input"], "output", 8),
    Chosen("captions.jsonl", ["text"], "references", 12, unused("'image_id'")),
    Chosen("unknown-keys.jsonl", ["utt"], "emotion_name", 12, unused("'uid'")),
    Chosen("capitals.jsonl", ["name"], "letters", 10, unused("'n'")),
    # Plain text.
    Chosen("prose.txt", LANGUAGE_MODEL, 0, 4),
    Chosen("poem.txt", LANGUAGE_MODEL, 0, 9),
    Chosen("program.txt", LANGUAGE_MODEL, 0, 10),
    Chosen("names.txt", LANGUAGE_MODEL, 0, 15),
    Chosen("cities.txt", LANGUAGE_MODEL, 0, 10),
    # Formats of their own.
    Chosen("excel.csv", ["Frage"], "Antwort", 10),
    Chosen("semicolons.csv", [0], 1, 12),
    Chosen("quoted.tsv", ["source"], "target", 12),
    Chosen("utf16.tsv", ["Wort"], "Übersetzung", 12),
    Chosen("pairs.json", ["question"], "answer", 10),
    Chosen("nested.jsonl", ["translation.en"], "translation.de", 12),
    Chosen("labels.jsonl", ["text"], "label", 12, unused("'idx'")),
    Chosen("vocabulary.xlsx", ["Englisch"], "Deutsch", 12, unused("'No'")),
    Chosen("reviews.parquet", ["sentence"], "label", 12, unused("'idx'")),
]
FILES = {chosen.file for chosen in CHOSEN}

REFUSED = {
    "one-column.tsv": "one-column.tsv: one column only, no tabs in its first lines",
    "empty.tsv": "empty.tsv: the file is empty",
    "blank.csv": "blank.csv: one column only",
    "header-only.csv": "header-only.csv: a header (question, answer) and no row below it; add the examples",
    "id-and-text.csv": "no two columns that look like a source and a target: 'id' (running numbers: '1'), 'text'",
    "leipzig.tsv": "choose them, for example: antiphon init leipzig.tsv --source 1 --target 0; or, for a",
    "log.tsv": "0 (dates: '2024-01-01T08:01:11'), 1 (text: 'The cat sleeps on",
    "links.csv": "'link' (web addresses: 'https://example.org/0'), 'text' (text: ",
    "messages.tsv": "0 (numbers: '830011'), 1 (text: ",
    "one-key.jsonl": "one-key.jsonl: two keys with text are needed, found only text",
}
PARALLEL = ("source.en", "source.de")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ZOO)


@pytest.mark.parametrize("expected", CHOSEN, ids=lambda expected: expected.file)
def test_the_columns_are_chosen(expected: Chosen) -> None:
    suggestion = suggest_config([expected.file])
    data = suggestion.config.data
    assert check_config(suggestion.config) == []
    assert [source.column for source in data.sources] == expected.sources
    assert data.target.column == expected.target
    assert (suggestion.config.model.kind == "language-model") == (expected.sources == LANGUAGE_MODEL)
    assert len(suggestion.warnings) == len(expected.warnings), suggestion.warnings
    for warning, words in zip(suggestion.warnings, expected.warnings, strict=True):
        assert words in warning
    pairs = list(read_pairs(expected.file, data, DropLog()))
    references = len(expected.target) if isinstance(expected.target, list) else 1
    assert len(pairs) == expected.pairs * references


@pytest.mark.parametrize("name", REFUSED)
def test_no_columns_to_choose(name: str) -> None:
    with pytest.raises(DataError) as caught:
        suggest_config([name])
    assert REFUSED[name] in str(caught.value)


def test_two_files_side_by_side() -> None:
    suggestion = suggest_config(list(PARALLEL))
    assert len(list(read_pairs(list(PARALLEL), suggestion.config.data, DropLog()))) == 12


def test_every_file_of_the_zoo_is_here() -> None:
    assert {path.name for path in ZOO.iterdir() if path.is_file()} == {*FILES, *REFUSED, *PARALLEL, "make.py"}


@pytest.mark.parametrize("count", [3, 5, 8])
@pytest.mark.parametrize("name", ["running-id.tsv", "nli.tsv", "reading.tsv", "languages.csv", "label-first.tsv"])
def test_a_few_rows_are_enough(name: str, count: int, tmp_path: Path) -> None:
    whole = suggest_config([name]).config.data
    short = tmp_path / name
    short.write_text("".join(Path(name).read_text("utf-8").splitlines(keepends=True)[: count + 1]), "utf-8")
    data = suggest_config([str(short)]).config.data
    assert [source.column for source in data.sources] == [source.column for source in whole.sources]
    assert data.target.column == whole.target.column
