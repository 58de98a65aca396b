"""train, generate, score, evaluate and explain, on one small model."""

from __future__ import annotations

import gzip
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_generators import tiny_folder

from antiphon.cli import io
from antiphon.cli.evaluate import print_result
from antiphon.cli.io import in_batches, is_pipe
from antiphon.cli.main import run
from antiphon.cli.train import NOTHING_LEARNT
from antiphon.errors import DataError, UserError
from antiphon.evaluation.evaluate import Evaluation
from antiphon.evaluation.intervals import Estimate
from antiphon.inference.engine import TorchEngine
from antiphon.inference.generator import Generator

LINES = ["a b c", "d", "", "b b", "c a d b", "a a"]
STDIN = "".join(f"{line}\n" for line in LINES).encode()


def test_a_line_in_a_line_out_from_stdin_or_a_file(antiphon, model: str, tmp_path: Path) -> None:  # noqa: ANN001
    piped = antiphon("generate", model, stdin=STDIN)
    assert piped.code == 0
    assert len(piped.lines) == len(LINES)
    assert piped.lines[2] == ""
    assert "antiphon: line 3: empty source\n" in piped.err
    file = tmp_path / "lines.txt"
    file.write_bytes(STDIN.replace(b"\n", b"\r\n"))
    packed = tmp_path / "lines.gz"
    packed.write_bytes(gzip.compress(STDIN))
    assert antiphon("generate", model, "-", stdin=STDIN).out == piped.out
    assert antiphon("generate", model, str(file)).out == piped.out
    assert antiphon("generate", model, str(packed)).out == piped.out
    assert antiphon("generate", model, "--batch-size", "1", stdin=STDIN).out == piped.out


def test_lines_end_at_line_feeds_only(antiphon, model: str) -> None:  # noqa: ANN001
    ended = antiphon("generate", model, stdin="\ufeffa\u2028b\u0085c\x0cd".encode())
    assert len(ended.lines) == 1


def test_no_input_is_no_output(antiphon, model: str) -> None:  # noqa: ANN001
    assert antiphon("generate", model, stdin=b"").out == ""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize(("name", "lines"), [("pipe.tsv", "a b\nc\n"), ("pipe.jsonl", '{"0": "a b"}\n{"0": "c"}\n')])
def test_a_named_pipe_is_read_once(antiphon, model: str, name: str, lines: str, tmp_path: Path) -> None:  # noqa: ANN001
    """Its name alone tells whether it is a table: a look at its first lines would take them away."""
    pipe = tmp_path / name
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(lines,), daemon=True)
    writer.start()
    ended = antiphon("generate", model, str(pipe))
    writer.join()
    assert ended.out == antiphon("generate", model, stdin=b"a b\nc\n").out


def test_a_closed_stdout_is_no_bug(model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a b\n")
    monkeypatch.setattr(sys, "stdout", None)
    assert run(["generate", model, str(tmp_path / "lines.txt")]) == 0
    sys.stdout.close()


def test_json_has_everything_but_the_weights(antiphon, model: str) -> None:  # noqa: ANN001
    ended = antiphon("generate", model, "--json", "--n-best", "2", stdin=STDIN)
    answers = [json.loads(line) for line in ended.lines]
    assert [answer["source"] for answer in answers] == LINES
    first = answers[0]
    assert set(first) == {"source", "text", "tokens", "score", "log_probs", "flags", "alternatives"}
    assert len(first["tokens"]) == len(first["log_probs"])
    assert first["alternatives"][0]["text"] == first["text"]
    assert len(first["alternatives"]) == 2
    assert answers[2]["flags"] == ["empty source"]


def test_weights_come_when_asked_for(antiphon, model: str) -> None:  # noqa: ANN001
    answer = json.loads(antiphon("generate", model, "--json", "--weights", stdin=b"a b\n").out)
    assert len(answer["weights"]) == len(answer["tokens"])
    assert all(len(row) == len(answer["source_tokens"]) for row in answer["weights"])
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in answer["weights"])
    refused = antiphon("generate", model, "--weights")
    assert (refused.code, refused.err) == (2, "antiphon: --weights: only in JSON; add --json\n")


@pytest.mark.parametrize("kind", ["static", "rnn-lm", "transformer-lm", "rnn-concatenated"])
def test_a_model_without_weights_says_so(antiphon, kind: str, tmp_path: Path) -> None:  # noqa: ANN001
    refused = antiphon("generate", tiny_folder(kind, tmp_path / kind), "--json", "--weights", stdin=b"a b\n")
    sentence = "--weights: this model does not attend to a source; leave --weights out"
    assert (refused.code, refused.out, refused.err) == (2, "", f"antiphon: {sentence}\n")


@pytest.mark.parametrize("kind", ["bahdanau", "transformer", "mixed", "transformer-concatenated"])
def test_every_model_that_looks_has_weights(antiphon, kind: str, tmp_path: Path) -> None:  # noqa: ANN001
    ended = antiphon("generate", tiny_folder(kind, tmp_path / kind), "--json", "--weights", stdin=b"a b\n")
    assert "weights" in json.loads(ended.out)


def test_n_best_has_line_score_and_text(antiphon, model: str) -> None:  # noqa: ANN001
    lines = [line.split("\t") for line in antiphon("generate", model, "--n-best", "3", stdin=b"a b\n\nc\n").lines]
    assert [number for number, _, _ in lines] == ["1", "1", "1", "2", "3", "3", "3"]
    first = json.loads(antiphon("generate", model, "--n-best", "3", "--json", stdin=b"a b\n").out)["alternatives"]
    assert [line[1:] for line in lines[:3]] == [[f"{other['score']:.4f}", other["text"]] for other in first]
    ranks = [(other["tokens"][-1] == "</s>", other["score"]) for other in first]  # the finished before the cut off
    assert ranks == sorted(ranks, reverse=True)


def test_options_have_an_effect(antiphon, model: str) -> None:  # noqa: ANN001
    def answer(*options: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(antiphon("generate", model, "--json", *options, stdin=b"a b c d\n").out)
        return found

    assert str(answer("--prefix", "d d")["text"]).startswith("d d")
    cut = answer("--prefix", "d d d", "--max-length", "2")
    assert cut["tokens"] == ["d", "d"]
    assert "maximum length" in str(cut["flags"])
    plain, divided = answer("--length-penalty", "0"), answer("--length-penalty", "1", "--beam", "1")
    assert plain["score"] == pytest.approx(sum(plain["log_probs"]), abs=1e-4)  # type: ignore[arg-type]
    numbers: list[float] = divided["log_probs"]  # type: ignore[assignment]
    assert divided["score"] == pytest.approx(sum(numbers) / len(numbers), abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        (["--n-best", "4", "--beam", "2"], b"", "n_best: 4 answers need a beam of at least 4, not 2"),
        (["--n-best", "9"], b"a\n", "n_best: 9 answers need a beam of at least 9"),
        (["--prefix", "é"], b"a\n", "prefix 'é'"),
        ([], b"a\nb \xe9\n", "stdin, line 2: not UTF-8 (byte 0xE9 at column 3); save the file as UTF-8"),
        (["nowhere.txt"], b"", "nowhere.txt: no such file"),
    ],
)
def test_bad_requests(antiphon, model: str, arguments: list[str], stdin: bytes, words: str) -> None:  # noqa: ANN001
    ended = antiphon("generate", model, *arguments, stdin=stdin)
    assert ended.code == 2
    assert ended.err.startswith(f"antiphon: {words}")


def test_unknown_symbols_are_said(antiphon, model: str) -> None:  # noqa: ANN001
    ended = antiphon("generate", model, stdin="a ß\n".encode())
    assert ended.code == 0
    assert "antiphon: line 1: unknown symbols in the source: 'ß' x 1\n" in ended.err
    many = antiphon("generate", model, stdin="ß\n".encode() * 25)
    assert many.err.count("unknown") == 20
    assert "25 of 25 lines are flagged" in many.err


def test_scores_of_unknown_symbols_do_not_flood(antiphon, model: str, tmp_path: Path) -> None:  # noqa: ANN001
    (tmp_path / "pairs.tsv").write_text("ß\ta\n" * 25)
    ended = antiphon("score", model, str(tmp_path / "pairs.tsv"))
    assert (ended.code, len(ended.lines)) == (0, 25)
    assert "antiphon: line 1: unknown symbols in the source: 'ß' x 1\n" in ended.err
    assert ended.err.count("unknown") == 20
    assert "25 of 25 lines are flagged; --json shows all flags" in ended.err


def test_lines_are_read_ahead_and_sorted_by_length(
    antiphon,  # noqa: ANN001
    model: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many batches at a time, so that each can hold like lengths; with --batch-size 1 nothing waits."""
    asked: list[int] = []
    really = Generator.generate

    def counted(self: Generator, texts: list[str], **options: Any) -> Any:  # noqa: ANN401 - passes on what it gets
        asked.append(len(texts))
        return really(self, texts, **options)

    monkeypatch.setattr(Generator, "generate", counted)
    sent = STDIN * 11
    plain = antiphon("generate", model, stdin=sent)
    assert asked == [64, 2]  # the model's batch size is 4
    asked.clear()
    assert antiphon("generate", model, "--batch-size", "1", stdin=sent).out == plain.out
    assert asked == [1] * 66


@pytest.mark.parametrize("command", ["generate", "score", "evaluate", "explain"])
def test_a_folder_that_is_no_model(antiphon, command: str, tmp_path: Path) -> None:  # noqa: ANN001
    ended = antiphon(command, str(tmp_path / "nowhere"), *([] if command == "generate" else ["a"]))
    assert ended.code == 2
    assert f"{tmp_path / 'nowhere'}: no such folder" in ended.err


def test_score_adds_up(antiphon, model: str, few: Path) -> None:  # noqa: ANN001
    plain = [line.split("\t") for line in antiphon("score", model, str(few)).lines]
    assert len(plain) == 40
    total, source, target, numbers = plain[5]
    assert (source, target) == ("a b", "b a")
    assert float(total) == pytest.approx(sum(map(float, numbers.split())), abs=1e-3)
    first = json.loads(antiphon("score", model, str(few), "--json", "--batch-size", "1").lines[5])
    assert set(first) == {"source", "target", "log_prob", "tokens", "log_probs", "flags"}
    assert first["log_prob"] == pytest.approx(float(total), abs=1e-3)


def test_score_of_parallel_files_and_broken_lines(antiphon, model: str, tmp_path: Path) -> None:  # noqa: ANN001
    (tmp_path / "source").write_text("a b\n\nc\n")
    (tmp_path / "target").write_text("b a\nc\nc\n")
    ended = antiphon("score", model, str(tmp_path / "source"), str(tmp_path / "target"))
    assert (ended.code, len(ended.lines)) == (0, 2)
    assert "line 2: empty source; left out" in ended.err
    (tmp_path / "bad.tsv").write_text("\ta\n")
    nothing = antiphon("score", model, str(tmp_path / "bad.tsv"))
    assert nothing.code == 2
    assert "not one line can be used" in nothing.err
    assert antiphon("score", model, "a", "b", "c").code == 2


def test_evaluate_says_value_and_interval(antiphon, model: str, few: Path) -> None:  # noqa: ANN001
    ended = antiphon("evaluate", model, str(few))
    assert ended.code == 0
    assert [line.split()[0] for line in ended.lines] == ["exact_match", "token_accuracy", "cer"]
    assert "40 examples" in ended.err
    chosen = antiphon("evaluate", model, str(few), "--json", "--metric", "bleu", "--metric", "loss", "--beam", "1")
    found = json.loads(chosen.out)
    assert list(found["metrics"]) == ["bleu", "loss"]
    assert found["examples"] == 40
    loss = found["metrics"]["loss"]
    assert loss["low"] <= loss["value"] <= loss["high"]
    assert "version" in found["signatures"]["bleu"]


def test_the_columns_of_the_table_hold_for_large_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"perplexity": Estimate(1234567.891, 1.0, 2.0), "loss": Estimate(14.026, 1.0, 2.0)}
    print_result(Evaluation(values, {}, 1, [], 0, 1.0, {}, unit="windows of 32 tokens"))
    said = capsys.readouterr()
    assert said.out == "perplexity  1234567.89  [1.00, 2.00]\nloss            14.026  [1.000, 2.000]\n"
    assert "antiphon: 1 window of 32 tokens in" in said.err


def test_the_loss_needs_no_decoding(
    antiphon,  # noqa: ANN001
    model: str,
    few: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TorchEngine, "decode", None)
    ended = antiphon("evaluate", model, str(few), "--metric", "loss", "--metric", "perplexity", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert list(found["metrics"]) == ["loss", "perplexity"]
    assert found["examples"] == 40


def test_evaluate_says_why_no_line_can_be_used(antiphon, model: str, tmp_path: Path) -> None:  # noqa: ANN001
    for name, text in (("source", "a\n\n"), ("target", "\nb\n")):
        (tmp_path / name).write_text(text)
    names = [str(tmp_path / "source"), str(tmp_path / "target")]
    for command in ("evaluate", "score"):
        ended = antiphon(command, model, *names)
        assert ended.code == 2
        assert f"antiphon: {names[0]} and {names[1]}: not one line can be used (" in ended.err
        assert "1 x empty source" in ended.err
        assert "{" not in ended.err


def test_evaluate_refuses_unknown_metrics_before_it_loads(antiphon) -> None:  # noqa: ANN001
    ended = antiphon("evaluate", "nowhere", "x.tsv", "--metric", "blue")
    assert (ended.code, ended.err) == (2, "antiphon: --metric: no metric is called 'blue'; did you mean 'bleu'?\n")


def test_explain_draws_in_the_terminal_and_as_a_picture(antiphon, model: str, tmp_path: Path) -> None:  # noqa: ANN001
    drawn = antiphon("explain", model, "a b c")
    assert drawn.code == 0
    assert "</s>" in drawn.out
    assert any(shade in drawn.out for shade in "░▒▓█")
    for name, magic in (("x.png", b"\x89PNG"), ("x.svg", b"<?xml")):
        ended = antiphon("explain", model, "a b c", "--out", str(tmp_path / name))
        assert (ended.code, ended.lines) == (0, drawn.lines[:1])
        assert (tmp_path / name).read_bytes().startswith(magic)


@pytest.mark.parametrize("name", ["x.jpeg", "x", "nowhere/x.png"])
def test_explain_refuses_what_it_cannot_write(antiphon, name: str, tmp_path: Path) -> None:  # noqa: ANN001
    ended = antiphon("explain", "nowhere", "a", "--out", str(tmp_path / name))
    assert ended.code == 2
    assert ended.err.startswith(f"antiphon: {tmp_path / name}: ")


def test_train_again_goes_on_and_another_config_is_refused(antiphon, model: str, tiny: Path) -> None:  # noqa: ANN001
    weights = Path(model, "model.safetensors").read_bytes()
    assert antiphon("train", str(tiny), "--out", model).code == 0
    assert Path(model, "model.safetensors").read_bytes() == weights
    refused = antiphon("train", str(tiny), "training.seed=2", "--out", model)
    assert refused.code == 2
    assert "training.seed: 1 in the run, 2 now" in refused.err


@pytest.mark.parametrize(("target", "flagged"), [("a b", True), ("a " * 12, False)])
def test_a_run_learns_the_limits_of_flags(antiphon, tiny: Path, tmp_path: Path, target: str, flagged: bool) -> None:  # noqa: ANN001
    """An answer of twelve equal tokens is flagged, unless training targets are like that."""
    train, run = tmp_path / "train.tsv", str(tmp_path / "run")
    train.write_text("".join(f"{number}\t{target}\n" for number in range(40)))
    assert antiphon("train", str(tiny), f"data.train={train}", "training.max_updates=1", "--out", run).code in (
        0,
        NOTHING_LEARNT,
    )
    ended = antiphon("generate", run, "--prefix", "a " * 12, "--max-length", "12", stdin=b"1\n")
    assert ("repetition: a token again and again" in ended.err) == flagged


def test_train_fresh_begins_again(antiphon, tiny: Path, tmp_path: Path) -> None:  # noqa: ANN001
    run = str(tmp_path / "run")
    slow, short = "training.learning_rate=0.001", ("training.max_updates=3", "training.learning_rate=0.002")
    assert antiphon("train", str(tiny), "training.max_updates=2", slow, "--out", run).code == NOTHING_LEARNT
    assert antiphon("train", str(tiny), *short, "--out", run).code == 2
    assert antiphon("train", str(tiny), *short, "--out", run, "--fresh").code == NOTHING_LEARNT
    assert json.loads(Path(run, "summary.json").read_text())["updates"] == 3


@pytest.mark.parametrize(
    ("opened", "end", "code", "said"),
    [
        (pty.openpty, b"\x04", 0, b"end with Ctrl-D"),
        (lambda: os.pipe()[::-1], signal.SIGINT, 130, b"antiphon: interrupted\n"),
    ],
)
def test_a_keyboard_and_a_slow_pipe_are_answered_line_by_line(
    model: str, opened: Callable[[], tuple[int, int]], end: bytes | signal.Signals, code: int, said: bytes
) -> None:
    """A line is answered although more may come; Ctrl-C ends the wait for them."""
    ours, theirs = opened()
    with subprocess.Popen(
        [sys.executable, "-m", "antiphon.cli.main", "generate", model],
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        os.close(theirs)
        assert process.stdout is not None
        assert process.stderr is not None
        os.write(ours, b"a b c\n")
        assert select.select([process.stdout], [], [], 60)[0], "no answer"
        assert process.stdout.readline().endswith(b"\n")
        os.write(ours, end) if isinstance(end, bytes) else process.send_signal(end)
        messages = process.stderr.read()
    os.close(ours)
    assert process.returncode == code
    assert said in messages
    assert b"Fatal" not in messages


def test_batches_from_a_pipe_have_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def lines() -> Iterator[str]:
        yield "a"
        answered.wait(timeout=60)
        yield from "bcdefgh"
        raise DataError("line 9: broken")

    monkeypatch.setattr(io, "is_pipe", lambda _: True)
    batches = in_batches(lines(), 3, None)
    assert next(batches) == ["a"]
    answered.set()
    found: list[list[str]] = []
    with pytest.raises(DataError, match="line 9"):
        found.extend(batches)
    assert [line for batch in found for line in batch] == list("bcdefgh"), "all lines before the error, in order"
    assert max(map(len, found)) <= 3


def test_a_file_is_read_in_full_batches(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").touch()
    os.mkfifo(tmp_path / "pipe")
    assert [is_pipe(str(tmp_path / name)) for name in ("lines.txt", "pipe", "missing")] == [False, True, False]
    assert list(in_batches(iter("abcdefg"), 3, str(tmp_path / "lines.txt"))) == [
        ["a", "b", "c"],
        ["d", "e", "f"],
        ["g"],
    ]


def test_a_closed_stdin_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="stdin is closed; name a file of lines"):
        io.input_lines(None)
