"""The single answers of `evaluate`: written to a file, and the worst of them on stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from feature_tables import values, write_table
from tiny_generators import tiny_folder

from antiphon.api import train
from antiphon.cli.predictions import say_worst, write_predictions
from antiphon.config.schema import Config
from antiphon.evaluation.evaluate import Evaluation
from antiphon.evaluation.intervals import Estimate
from antiphon.evaluation.predictions import Prediction


def prediction(answer: str | None, *references: str, source: str = "s", line: int = 1, **values: float) -> Prediction:
    flags = ["empty source", "empty answer: nothing was written"] if not answer else []
    return Prediction(line, source, references, answer, -1.25, flags, values)


def test_the_columns_of_the_file(tmp_path: Path) -> None:
    predictions = [
        prediction("x\ny", "a\tb", source="one\ttwo", cer=50.0, chrf=2.0),
        prediction("", "c", "d", "e", cer=100.0, chrf=0.0),
    ]
    write_predictions(predictions, tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text() == (
        "source\treference\tanswer\tscore\tflags\tcer\tchrf\treference_2\treference_3\n"
        "one\\ttwo\ta\\tb\tx\\ny\t-1.2500\t\t50.0000\t2.0000\t\t\n"
        "s\tc\t\t-1.2500\tempty source; empty answer: nothing was written\t100.0000\t0.0000\td\te\n"
    )
    write_predictions(predictions, tmp_path / "out.jsonl")
    first, _ = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().split("\n")[:-1])
    assert first == {
        "line": 1, "source": "one\ttwo", "references": ["a\tb"], "answer": "x\ny", "score": -1.25, "flags": [],
        "values": {"cer": 50.0, "chrf": 2.0},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            prediction("x\x1b", "y", "z", cer=50.0),
            ["line 1: cer 50.00", "  source     s", "  reference  y", "  reference  z", "  answer     x␛"],
        ),
        (
            prediction("a " * 30 + "b", "a " * 30 + "c" * 60, line=7, cer=2.0),
            [
                "line 7: cer 2.00",
                "  source     s",
                f"  reference  …{'a ' * 10}{'c' * 35}…",
                f"  answer     …{'a ' * 10}b",
            ],
        ),
        (prediction(None, "言" * 40, source="", cer=1.0), ["line 1: cer 1.00", f"  text       {'言' * 28}…"]),
    ],
)
def test_the_worst_fit_the_terminal(
    found: Prediction, lines: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long answer is shown from shortly before its first error."""
    monkeypatch.setenv("COLUMNS", "80")
    result = Evaluation({"bleu": Estimate(1.0, 1.0, 1.0)}, {}, 1, [], 0, 1.0, {}, predictions=[found])
    say_worst(result, 3)
    head, *rest = capsys.readouterr().err.split("\n")[:-1]
    kind = "error" if found.answer is not None else "example"
    assert head == f"antiphon: the worst 1 of 1 {kind} by cer (bleu says little about one example):"
    assert rest == [f"antiphon: {line}" for line in lines]


def test_evaluate_writes_what_generate_answers(antiphon, model: str, tmp_path: Path) -> None:  # noqa: ANN001
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "out.tsv"
    pairs.write_text("a b\tb a\nc\tc\na ß\ta\na b\ta\n")
    ended = antiphon("evaluate", model, str(pairs), "--predictions", str(out), "--metric=cer", "--worst", "1")
    assert f"antiphon: wrote {out}" in ended.err
    assert "antiphon: 1 answer flagged (1 x unknown symbols in the source); --predictions" in ended.err
    assert ended.err.count("  source") == 1
    head, *rows = (line.split("\t") for line in out.read_text().split("\n")[:-1])
    assert head == ["source", "reference", "answer", "score", "flags", "cer", "reference_2"]
    assert [(row[0], row[1], row[-1]) for row in rows] == [("a b", "b a", "a"), ("c", "c", ""), ("a ß", "a", "")]
    stdin = "".join(f"{row[0]}\n" for row in rows).encode()
    answers = [json.loads(line) for line in antiphon("generate", model, "--json", stdin=stdin).lines]
    assert [row[2] for row in rows] == [answer["text"] for answer in answers]
    assert [float(row[3]) for row in rows] == pytest.approx([answer["score"] for answer in answers], abs=1e-3)
    assert [row[4] for row in rows] == ["", "", "unknown symbols in the source: 'ß' x 1"]


def test_json_has_the_worst(antiphon, model: str, few: Path) -> None:  # noqa: ANN001
    ended = antiphon("evaluate", model, str(few), "--json", "--worst", "2", "--metric", "cer")
    worst = json.loads(ended.out)["worst"]
    assert len(worst) == 2
    assert worst[0]["values"]["cer"] >= worst[1]["values"]["cer"] > 0
    assert "worst" not in ended.err
    assert json.loads(antiphon("evaluate", model, str(few), "--json", "--worst", "0").out)["worst"] == []
    assert "worst" not in antiphon("evaluate", model, str(few), "--worst", "0").err


def test_a_language_model_has_no_predictions(antiphon, tmp_path: Path) -> None:  # noqa: ANN001
    (tmp_path / "text.txt").write_text("a b\n")
    folder = tiny_folder("rnn-lm", tmp_path / "lm")
    ended = antiphon("evaluate", folder, str(tmp_path / "text.txt"), "--predictions", str(tmp_path / "out.tsv"))
    assert ended.code == 2
    assert ended.err.startswith("antiphon: --predictions: a language model gives no answers to compare; leave it out")


def test_files_are_shown_by_their_paths(antiphon, tmp_path: Path) -> None:  # noqa: ANN001
    table = write_table(tmp_path / "data")
    train(Config.model_validate(values(table)), tmp_path / "run")
    ended = antiphon("evaluate", str(tmp_path / "run"), str(table), "--json", "--metric", "cer", "--worst", "1")
    [worst] = json.loads(ended.out)["worst"]
    assert Path(worst["source"]).is_file()
    loss = antiphon("evaluate", str(tmp_path / "run"), str(table), "--metric", "loss", "--worst", "1")
    assert "antiphon: the worst 1 of 40 examples by loss:" in loss.err
    assert "antiphon:   reference" in loss.err
    assert "antiphon:   answer" not in loss.err
