"""CoNLL: sentences of one token per line become rows of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config.schema import DataConfig
from antiphon.data.conll import sentence_rows
from antiphon.data.lines import Line
from antiphon.data.pairs import DropLog, Pair, read_pairs

FAULT = "a sentence whose lines have unequal numbers of columns"


def rows(text: str) -> list[tuple[int, list[str], str]]:
    lines = [Line(number, line) for number, line in enumerate(text.split("\n"), start=1)]
    return [tuple(row) for row in sentence_rows(lines)]


TABLE = {
    "tabs": ("the\tD\ncat\tN\n\n\nsees\tV", [(1, ["the cat", "D N"], ""), (5, ["sees", "V"], "")]),
    "spaces": ("EU NNP B-ORG\nrejects VBZ O\n", [(1, ["EU rejects", "NNP VBZ", "B-ORG O"], "")]),
    "a space inside a token": ("10 000\tNUM\n", [(1, ["10\xa0000", "NUM"], "")]),
    "comments": ("# text = a b\na\tX\n# is\tSYM\n", [(2, ["a #\xa0is", "X SYM"], "")]),
    "a comment among spaces": ("# id 1 of 9\na X\n", [(2, ["a", "X"], "")]),
    "documents": ("-DOCSTART- -X- O\n\na X O\n", [(3, ["a", "X", "O"], "")]),
    "a line too short": ("a\tX\nb\n\nc\tX\n", [(1, [], FAULT), (4, ["c", "X"], "")]),
    "an empty cell": ("a\t\n", [(1, ["a", "_"], "")]),
    "nothing": ("\n\n", []),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_rows_of_a_text(name: str) -> None:
    text, expected = TABLE[name]
    assert rows(text) == expected


def test_lines_of_conllu_that_are_no_tokens() -> None:
    rest = "\t".join("_" * 6)
    text = "".join(f"{number}\t{word}\t_\t{label}\t{rest}\n" for number, word, label in WORDS)
    [(_, cells, fault)] = rows(f"# sent_id = 1\n{text}")
    assert (cells[1], cells[3], fault) == ("le chat voit", "DET NOUN VERB", "")


WORDS = [("1", "le", "DET"), ("2-3", "duchat", "_"), ("2", "chat", "NOUN"), ("2.1", "que", "X"), ("3", "voit", "VERB")]


def test_training_reads_the_chosen_columns(tmp_path: Path) -> None:
    """And names what it cannot use with the line of the sentence."""
    path = tmp_path / "train.conll"
    path.write_text("EU NNP B\nrejects VBZ O\n\na X\nb Y Z\n\ncalls VBZ O\n")
    data = DataConfig.model_validate(
        {"train": str(path), "source": {"tokens": "words"}, "target": {"column": 2, "tokens": "words"}, "labels": True}
    )
    dropped = DropLog()
    found = list(read_pairs(str(path), data, dropped))
    assert found == [Pair(("EU rejects",), "B O", 1), Pair(("calls",), "O", 7)]
    assert [(one.line, one.reason) for one in dropped.listed] == [(4, FAULT)]


def test_another_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "train.bio"
    path.write_text("a b|X\nc|Y\n")
    data = DataConfig.model_validate({"train": str(path), "delimiter": "|"})
    assert list(read_pairs(str(path), data, DropLog())) == [Pair(("a\xa0b c",), "X Y", 1)]
