"""evaluate where targets are classes, and evaluate by groups, on one small classifier."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from antiphon.cli.evaluate import print_result
from antiphon.cli.main import run
from antiphon.cli.train import NOTHING_LEARNT
from antiphon.evaluation.classes import compare_classes
from antiphon.evaluation.evaluate import Evaluation
from antiphon.evaluation.intervals import Estimate

CONFIG = """\
data: {train: PAIRS, hold_out: 0.1, source: {column: text, tokens: words}, target: {column: label, tokens: words}}
model:
  encoder: {kind: gru, embedding: 16, size: 16, dropout: 0.0}
  decoder: {kind: bahdanau, cell: gru, embedding: 16, size: 16, dropout: 0.0}
training: {epochs: 2, batch_tokens: 256, schedule: {warmup: 0}, learning_rate: 2e-2, metric: exact_match}
decoding: {beam: 1, max_length: 4}
evaluation: {metrics: [exact_match, loss]}
"""
"""Classes of texts by their more frequent letter; `no choice` has two words and is one class."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """text, label, part: 240 different texts; the first half is part one."""
    chance = random.Random(1)
    texts: dict[str, None] = {}
    while len(texts) < 240:
        texts[" ".join(chance.choices("abc", k=7))] = None
    lines = ["text\tlabel\tpart"]
    for number, text in enumerate(texts):
        more = text.count("a") - text.count("b")
        label = "more a" if more > 0 else "more b" if more < 0 else "no choice"
        lines.append(f"{text}\t{label}\t{'one' if number < 120 else 'two'}")
    path = tmp_path_factory.mktemp("classes") / "table.tsv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def classifier(table: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runs")
    config = folder / "classes.yaml"
    config.write_text(CONFIG.replace("PAIRS", str(table)))
    assert run(["train", str(config), "--out", str(folder / "run")]) in (0, NOTHING_LEARNT)
    return str(folder / "run")


def test_each_class_has_its_scores(antiphon, classifier: str, table: Path) -> None:  # noqa: ANN001
    ended = antiphon("evaluate", classifier, str(table))
    assert ended.code == 0, ended.err
    accuracy, loss, empty, head, *rows = ended.lines
    assert (accuracy.split()[0], loss.split()[0], empty) == ("accuracy", "loss", "")
    assert head.split() == ["class", "precision", "recall", "F1", "count"]
    assert [row[:9].rstrip() for row in rows] == ["more a", "more b", "no choice", "mean"]
    assert len({len(row) for row in (head, *rows)}) == 1  # the columns stand one below the other
    assert "antiphon: accuracy: nrefs:1|" in ended.err


def test_classes_as_json_agree_with_the_metric(antiphon, classifier: str, table: Path) -> None:  # noqa: ANN001
    found = json.loads(antiphon("evaluate", classifier, str(table), "--json").out)
    classes = found["classes"]
    right = sum(classes["confusion"][k][k] for k in range(3))
    assert found["metrics"]["exact_match"]["value"] == pytest.approx(100 * right / 240)
    assert sum(map(sum, classes["confusion"])) == classes["mean"]["count"] == found["examples"] == 240
    assert [score["name"] for score in classes["scores"]] == classes["names"] == ["more a", "more b", "no choice"]
    assert classes["others"] == sum(row[-1] for row in classes["confusion"])
    assert "groups" not in found


def test_confusion_is_written_as_picture_and_table(antiphon, classifier: str, table: Path, tmp_path: Path) -> None:  # noqa: ANN001
    files = [tmp_path / f"c.{suffix}" for suffix in ("png", "svg", "tsv")]
    options = [argument for file in files for argument in ("--confusion", str(file))]
    ended = antiphon("evaluate", classifier, str(table), "--json", *options)
    assert ended.code == 0, ended.err
    assert [line for line in ended.err.split("\n") if "wrote" in line] == [f"antiphon: wrote {file}" for file in files]
    head, *rows = (line.split("\t") for line in files[2].read_text().split("\n")[:-1])
    assert head == ["right / answered", "more a", "more b", "no choice", "(other)"]
    assert [[int(cell) for cell in row[1:]] for row in rows] == json.loads(ended.out)["classes"]["confusion"]
    assert files[0].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("order", ["name", "size", "no choice,more b", "no choice"])
def test_the_order_of_a_confusion_matrix(antiphon, classifier: str, table: Path, tmp_path: Path, order: str) -> None:  # noqa: ANN001
    path = tmp_path / "c.tsv"
    ended = antiphon("evaluate", classifier, str(table), "--json", "--confusion", str(path), "--order", order)
    classes = json.loads(ended.out)["classes"]
    head, *rows = (line.split("\t") for line in path.read_text().split("\n")[:-1])
    names = head[1:-1]
    assert [row[0] for row in rows] == names
    places = [classes["names"].index(name) for name in names]
    counts = [[classes["confusion"][row][column] for column in (*places, 3)] for row in places]
    assert [[int(cell) for cell in row[1:]] for row in rows] == counts
    sizes = [sum(row) for row in counts]
    if order == "size":
        assert sizes == sorted(sizes, reverse=True)
    elif order != "name":
        assert names == [*order.split(","), *(name for name in classes["names"] if name not in order)]


def test_by_a_column_and_by_lines(antiphon, classifier: str, table: Path) -> None:  # noqa: ANN001
    whole = json.loads(antiphon("evaluate", classifier, str(table), "--json", "--by", "part").out)
    lines = json.loads(antiphon("evaluate", classifier, str(table), "--json", "--by-lines", "120").out)
    assert [group["name"] for group in whole["groups"]] == ["one", "two"]
    assert [group["name"] for group in lines["groups"]] == ["lines 2-121", "lines 122-241"]
    assert [group["value"] for group in whole["groups"]] == [group["value"] for group in lines["groups"]]
    assert [group["examples"] for group in whole["groups"]] == [120, 120]
    mean = sum(group["value"] for group in whole["groups"]) / 2
    assert mean == pytest.approx(whole["metrics"]["exact_match"]["value"])
    assert {group["metric"] for group in whole["groups"]} == {"exact_match"}
    chosen = [f"--metric={name}" for name in ("bits_per_character", "exact_match", "bleu")]
    ended = antiphon("evaluate", classifier, str(table), "--by", "part", *chosen)
    *_, head, one, two = ended.lines
    assert head.split() == ["part", "accuracy", "count"]
    assert (one.split()[0], one.split()[-1], two.split()[0]) == ("one", "120", "two")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--by", "prat"], "--by prat: TABLE has no such column; did you mean 'part'?"),
        (["--by", "part", "--by-lines", "9"], "--by and --by-lines: one at a time; leave one out"),
        (["--by", "part", "--metric", "loss"], "groups: nothing is decoded for loss; leave it out"),
        (["--confusion", "c.jpg"], "c.jpg: PNG, SVG or TSV can be written; give a name that ends in .png"),
        (["--predictions", "p.csv"], "p.csv: TSV or JSONL can be written; give a name that ends in .tsv or .jsonl"),
        (["--predictions", "nowhere/p.tsv"], "nowhere/p.tsv: there is no folder nowhere; make it first"),
        (["--predictions", "p.tsv", "--metric", "loss"], "--predictions: nothing is decoded for loss; add --metric ex"),
        (["--order", "size"], "--order: only for a confusion matrix; add --confusion FILE, or leave it out"),
        (["--confusion", "c.png", "--order", "more a,less"], "--order: less: no such class; give name, size, or some"),
        (["--confusion", "nowhere/c.png"], "nowhere/c.png: there is no folder nowhere; make it first"),
        (
            ["--confusion", "c.png", "--metric", "loss"],
            "--confusion: nothing is decoded for loss; add --metric exact_m",
        ),
    ],
)
def test_what_does_not_go_together(
    antiphon,  # noqa: ANN001
    classifier: str,
    table: Path,
    options: list[str],
    sentence: str,
) -> None:
    ended = antiphon("evaluate", classifier, str(table), *options)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"antiphon: {sentence.replace('TABLE', str(table))}")


def test_other_targets_get_no_classes(antiphon, model: str, few: Path, tmp_path: Path) -> None:  # noqa: ANN001
    ended = antiphon("evaluate", model, str(few))
    assert [line.split()[0] for line in ended.lines] == ["exact_match", "token_accuracy", "cer"]
    assert "classes" not in json.loads(antiphon("evaluate", model, str(few), "--json").out)
    refused = antiphon("evaluate", model, str(few), "--confusion", str(tmp_path / "c.png"))
    assert refused.code == 2
    assert refused.err.startswith("antiphon: --confusion: the targets are not classes: 40 different ones in 40")


def test_two_files_have_no_other_columns(antiphon, model: str, tmp_path: Path) -> None:  # noqa: ANN001
    for name in ("source", "target"):
        (tmp_path / name).write_text("a b\nc d\n")
    names = [str(tmp_path / "source"), str(tmp_path / "target")]
    assert "--by: two parallel files have no other columns" in antiphon("evaluate", model, *names, "--by", "0").err
    found = json.loads(antiphon("evaluate", model, *names, "--by-lines", "1", "--json").out)
    assert [group["name"] for group in found["groups"]] == ["lines 1-1", "lines 2-2"]


def test_many_classes_are_shown_in_part(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{number:02}" for number in range(40)]
    references = [(name,) for name in names for _ in range(1 + int(name) % 4 * 2)]
    classes = compare_classes(["03"] * len(references), references, names)
    values = {"exact_match": Estimate(1.0, 1.0, 1.0)}
    print_result(Evaluation(values, {}, 160, [], 0, 1.0, {}, classes=classes))
    said = capsys.readouterr()
    shown = [line.split()[0] for line in said.out.split("\n")[3:-1]]
    assert shown == [*[name for name in names if int(name) % 4][:30], "mean"]
    assert "10 rarer classes are not shown; --json has them all" in said.err


def test_data_sets_are_made_before_anything_is_loaded(antiphon) -> None:  # noqa: ANN001
    ended = antiphon("evaluate", "nowhere", "@reverse/tset")
    assert ended.code == 2
    assert "did you mean @reverse/test?" in ended.err


def test_accuracy_is_exact_match_and_not_what_looks_like_it(antiphon) -> None:  # noqa: ANN001
    ended = antiphon("evaluate", "nowhere", "x.tsv", "--metric", "accuracy")
    assert ended.err == "antiphon: --metric: no metric is called 'accuracy'; did you mean 'exact_match'?\n"
