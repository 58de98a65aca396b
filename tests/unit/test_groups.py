"""Groups of examples, and the metric of each."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from antiphon.config.schema import DataConfig
from antiphon.errors import UserError
from antiphon.evaluation.intervals import (
    estimate_groups,
    estimate_value,
    groups_by_column,
    groups_by_lines,
    has_header,
)
from antiphon.evaluation.metrics import METRICS

TABLE = "q\ttask\ta\nwho\tone\tx\n\nwhat\ttwo\ty\nshort\nwhen\t one \tz\n"


@pytest.mark.parametrize("name", ["exact_match", "bleu", "rouge_2"])
def test_each_group_is_the_metric_of_its_examples(name: str) -> None:
    outputs, references = ["a b c d", "x", "b c d e", "d"], [("a b c d",), ("d",), ("b c d x",), ("d",)]
    metric = METRICS[name]
    one, two = estimate_groups(metric, outputs, references, ["p", "q", "p", "q"], samples=50)
    assert (one.name, one.examples, two.name, two.examples) == ("p", 2, "q", 2)
    for group, rows in ((one, slice(0, None, 2)), (two, slice(1, None, 2))):
        statistics = metric.checked_statistics(outputs[rows], references[rows])
        assert group.estimate == estimate_value(statistics, metric.value, samples=50)


def test_by_lines() -> None:
    assert groups_by_lines([1, 3, 4, 9], 3, first=1) == ["lines 1-3", "lines 1-3", "lines 4-6", "lines 7-9"]
    assert groups_by_lines([2, 1001, 1002], 1000, first=2) == ["lines 2-1001", "lines 2-1001", "lines 1002-2001"]


def test_by_the_name_or_number_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(TABLE)
    for column in ("task", "1"):
        assert groups_by_column(path, "a.tsv", column, [2, 4, 6, 2], header=True) == ["one", "two", "one", "one"]
    assert groups_by_column(path, "a.tsv", "1", [1, 2], header=False) == ["task", "one"]
    assert groups_by_column(path, "a.tsv", "task", [2, 5], header=True) == ["one", ""]  # line 5 has no such cell


def test_csv_jsonl_and_gzip(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('q,task\n"who, me",one\nwhat,two\n')
    assert groups_by_column(tmp_path / "a.csv", "a.csv", "task", [2, 3], header=True) == ["one", "two"]
    (tmp_path / "a.jsonl").write_text('{"q": "who", "task": 1}\nbroken\n{"q": "what", "task": "two"}\n{"q": "x"}\n')
    path = tmp_path / "a.jsonl"
    assert groups_by_column(path, "a.jsonl", "task", [1, 3, 4], header=False) == ["1", "two", ""]
    with gzip.open(tmp_path / "a.tsv.gz", "wt") as file:
        file.write(TABLE)
    assert groups_by_column(tmp_path / "a.tsv.gz", "a", "task", [2, 4], header=True) == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "column", "header", "sentence"),
    [
        ("a.tsv", "tsak", True, "--by tsak: a.tsv has no such column; did you mean 'task'?"),
        ("a.tsv", "zzz", True, "--by zzz: a.tsv has no such column; it has q, task, a"),
        ("a.tsv", "3", True, "--by 3: a.tsv has no such column; it has q, task, a"),
        ("a.tsv", "task", False, "--by task: a.tsv has columns 0 to 2 and, according to the model's config, no header"),
        ("a.jsonl", "tsak", False, "--by tsak: a.jsonl has no such column; did you mean 'task'?"),
    ],
)
def test_a_column_that_is_not_there(tmp_path: Path, name: str, column: str, header: bool, sentence: str) -> None:
    (tmp_path / "a.tsv").write_text(TABLE)
    (tmp_path / "a.jsonl").write_text('{"q": "who", "task": "one"}\n')
    with pytest.raises(UserError) as caught:
        groups_by_column(tmp_path / name, name, column, [2], header=header)
    assert str(caught.value).startswith(sentence)


def test_a_column_of_sentences_makes_no_table(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"source {number}\tx\n" for number in range(1001)))
    with pytest.raises(UserError, match="--by 0: 1,001 different values; choose a column with at most 1,000"):
        groups_by_column(path, "a.tsv", "0", range(1, 1002), header=False)


@pytest.mark.parametrize(
    ("keys", "header"),
    [
        ({}, False),
        ({"header": True}, True),
        ({"target": {"column": "a"}}, True),
        ({"target": {"column": ["a", "b"]}}, True),
        ({"source": {"column": "q"}}, True),
        ({"source": {"column": "q"}, "header": False}, False),
    ],
)
def test_whether_there_is_a_header(keys: dict[str, object], header: bool) -> None:
    data = DataConfig.model_validate({"train": "x.tsv", **keys})
    assert has_header(Path("x.tsv"), data) == header
    assert not has_header(Path("x.jsonl.gz"), data)
