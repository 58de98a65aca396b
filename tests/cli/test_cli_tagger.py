"""A tagger on the command line: init finds the task, and what follows runs to the picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.autoconfig.suggest import suggest_config

Command = Callable[..., Any]
LABELS = {"the": "DET", "a": "DET", "dog": "NOUN", "cat": "NOUN", "ball": "NOUN", "sees": "VERB", "likes": "VERB"}
FAST = ["training.learning_rate=0.01", "model.encoder.dropout=0.1", "model.decoder.dropout=0.1"]
NOUNS = [f"thing{number}" for number in range(20)]


def sentences(count: int = 60) -> list[tuple[str, str]]:
    words = {**LABELS, **dict.fromkeys(NOUNS, "NOUN")}
    rows = [
        ["the", NOUNS[n % 20], "sees" if n % 2 else "likes", "a", ("dog", "cat", "ball")[n % 3]] for n in range(count)
    ]
    return [(" ".join(row), " ".join(words[word] for word in row)) for row in rows]


def conll(rows: list[tuple[str, str]]) -> str:
    pairs = [zip(words.split(), labels.split(), strict=True) for words, labels in rows]
    return "\n".join("".join(f"{word}\t{label}\n" for word, label in pair) for pair in pairs)


CONLLU = "1\tdogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tbark\tbark\tVERB\t_\t_\t0\troot\t_\t_\n\n"
NAMES = "-DOCSTART- -X- O\n\nEU NNP B-ORG\ncalls VBZ O\n\nEdvard NNP B-PER\nGrieg NNP I-PER\nsings VBZ O\n\n"


@pytest.mark.parametrize(
    ("file", "text", "columns", "metric"),
    [("a.conllu", CONLLU, (1, 3), "token_accuracy"), ("a.conll", NAMES, (0, 2), "span_f1")],
)
def test_columns_and_metric_of_conll(
    file: str, text: str, columns: tuple[int, int], metric: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text * 30)
    config = suggest_config([str(tmp_path / file)]).config
    assert config.data.text is not None
    assert (config.data.text.column, config.data.target.column) == columns
    assert (config.model.kind, config.training.metric, config.evaluation.metrics[0]) == ("tagger", metric, metric)


@pytest.mark.parametrize("form", ["tsv", "conll"])
def test_from_a_file_to_labels(antiphon: Command, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = sentences()
    text = conll(rows) if form == "conll" else "".join(f"{words}\t{labels}\n" for words, labels in rows)
    Path(f"data.{form}").write_text(text)
    found = antiphon("init", f"data.{form}")
    assert (found.code, "a label for each word" in found.err) == (0, True), found.err
    few = ["training.max_updates=60", "training.evaluate_every=30", *FAST]
    assert antiphon("train", "config.yaml", *few, "--out", "run").code == 0
    score = antiphon("evaluate", "run", f"data.{form}", "--metric", "token_accuracy")
    assert float(score.lines[0].split()[1]) > 80
    Path("lines.txt").write_text("the thing1 sees a dog\na cat\n")
    answered = antiphon("generate", "run", "lines.txt")
    assert [len(line.split()) for line in answered.lines] == [5, 2]
    drawn = antiphon("explain", "run", "the zebra sees")
    assert "zebra" in drawn.out, "an unknown word stands as it is in the text"
    refused = antiphon("generate", "run", "lines.txt", "--max-length", "3")
    assert (refused.code, refused.out) == (2, "")
    assert "max_length: a tagger gives each token one label, chosen alone; leave it out" in refused.err
