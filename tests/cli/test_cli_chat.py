"""antiphon chat: a pipe gives a line for a line, a terminal has a prompt, and both remember what was said."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_calls import Command
from tiny_generators import tiny_folder
from untrained_models import LogitBias, untrained_model

import antiphon as library
from antiphon.cli.chat import converse
from antiphon.cli.train import NOTHING_LEARNT
from antiphon.data.tokenizers import WordTokenizer
from antiphon.errors import UserError
from antiphon.inference.conversation import Conversation, TurnFormat
from antiphon.inference.flags import FlagLimits
from antiphon.inference.limits import Limits
from antiphon.model_folder import save_model

READS = "antiphon: the model reads the last 3 turns of the conversation, your line included\n"
WORDS = ["K", "\x1b[31m", "M", "N", "O"]  # that the model answers with
PATIENCE = 120.0  # seconds after which a program that says nothing counts as broken


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model folder as if it had been trained with dialogues of at most three turns, with `?` between them."""
    folder = tmp_path_factory.mktemp("chat") / "model"
    loaded = untrained_model(LogitBias(end=-0.5), longest=30, target=WordTokenizer(WORDS))
    save_model(folder, loaded.config, loaded.model.state_dict(), loaded.source, loaded.target_tokenizer)
    FlagLimits(turns=TurnFormat(" ? ", 3)).save(folder)
    return str(folder)


@pytest.fixture(scope="module")
def said(talker: str) -> list[str]:
    """The right answers to the lines `a b`, `c` and `d d`, one after another."""
    model = library.load(talker)
    first = model.generate("a b").text
    second = model.generate(f"a b ? {first} ? c").text
    third = model.generate(f"c ? {second} ? d d").text
    assert first
    assert second != model.generate("c").text, "the model notices what was said before"
    assert third != model.generate(f"a b ? {first} ? c ? {second} ? d d").text, "and how much of it"
    return [first, second, third]


def test_a_piped_line_is_answered_with_the_turns_before_it(antiphon: Command, talker: str, said: list[str]) -> None:
    ended = antiphon("chat", talker, stdin=b"a b\nc\nd d\n")
    assert (ended.code, ended.lines) == (0, said)
    assert ended.err.startswith(READS)
    assert "line 2: unknown symbols in the source" in ended.err, "the answer before has other words"


def test_an_empty_line_gives_an_empty_line(antiphon: Command, talker: str, said: list[str]) -> None:
    ended = antiphon("chat", talker, stdin=b"a b\n\nc\n")
    assert ended.lines == [said[0], "", said[1]]
    assert "antiphon: line 2: empty source\n" in ended.err


def test_undo_reset_and_history(antiphon: Command, talker: str, said: list[str]) -> None:
    lines = b"a b\nd e f\n/undo\nc\n/history\n/reset\na b\n/undo\n/undo\n"
    ended = antiphon("chat", talker, stdin=lines)
    assert [*ended.lines[:1], *ended.lines[2:]] == [said[0], said[1], "> a b", said[0], "> c", said[1], said[0]]
    messages = [line for line in ended.err.split("\n") if "line " not in line.removeprefix(READS)]
    assert messages == [
        "antiphon: taken back: d e f",
        "antiphon: everything that was said is forgotten",
        "antiphon: taken back: a b",
        "antiphon: nothing was said yet",
        "",
    ]


def test_alternatives_are_the_n_best_of_the_last_answer(antiphon: Command, talker: str) -> None:
    ended = antiphon("chat", talker, stdin=b"/alternatives\na b\n/alternatives\n")
    alternatives = library.load(talker).generate("a b", n_best=4).alternatives
    assert ended.lines[1:] == [f"{one.score:.4f}\t{one.text}" for one in alternatives]
    assert len(alternatives) == 4
    assert "antiphon: nothing was said yet, so there is no answer\n" in ended.err
    single = antiphon("chat", talker, "--beam", "1", stdin=b"a b\n/alternatives\n")
    assert len(single.lines) == 2
    assert "this was the only answer; start with --beam 5, or with --n-best 5 of samples, for more" in single.err


def test_a_command_that_there_is_not(antiphon: Command, talker: str) -> None:
    ended = antiphon("chat", talker, stdin=b"/hist\n/zzz\n/help\n")
    assert ended.code == 0
    assert "antiphon: /hist: there is no such command; did you mean /history?\n" in ended.err
    assert "antiphon: /zzz: there is no such command; /help lists them\n" in ended.err
    assert [line.split()[0] for line in ended.lines] == ["/alternatives", "/history", "/undo", "/reset", "/help"]


def test_a_model_that_was_trained_with_single_turns_says_so(antiphon: Command, model: str) -> None:
    ended = antiphon("chat", model, stdin=b"a b\nb c d\n")
    fact = "the training sources of this model have one turn each (data.turns), so each line is answered by itself"
    assert ended.err == f"antiphon: {fact}\n"
    assert ended.lines == [one.text for one in library.load(model).generate(["a b", "b c d"])]


def test_a_dialogue_is_trained_and_talked_to(antiphon: Command, tiny: Path, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    trained = antiphon("train", str(tiny), "data.turns=b", "training.max_updates=1", "--out", run)
    assert trained.code in (0, NOTHING_LEARNT)
    assert f" chat {run}, " in trained.err, "what to do next"
    ended = antiphon("chat", run, stdin=b"a\n")
    assert (ended.code, len(ended.lines)) == (0, 1)
    assert "the model reads the last 2 turns" in ended.err, "a b c has two, and no line is long enough for more"


def test_models_and_options_that_do_not_fit(antiphon: Command, tmp_path: Path, talker: str) -> None:
    ended = antiphon("chat", tiny_folder("rnn-lm", tmp_path / "lm"), stdin=b"a\n")
    problem = "chat: a language model continues a text and does not answer; `antiphon generate` does that"
    assert (ended.code, ended.out, ended.err) == (2, "", f"antiphon: {problem}\n")
    wrong = antiphon("chat", talker, "--n-best", "9", stdin=b"a\n")
    assert (wrong.code, wrong.out) == (2, "")
    assert "n_best: 9 answers need a beam of at least 9" in wrong.err


# A terminal.


# The terminal of its own session, so that Ctrl-C is a signal.
# Tests in the background have it ignored, which children inherit.
PROGRAM = (
    "import fcntl, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGINT, signal.default_int_handler); from antiphon.cli.main import main; main()"
)


class Terminal:
    """`antiphon chat` at a terminal."""

    def __init__(self, *arguments: str) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "chat", *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TERM": "dumb", "COLUMNS": "200"},
        )  # fmt: skip
        os.close(theirs)
        self.screen = b""

    def until_prompt(self) -> list[str]:
        """The lines that are new when there is a prompt, or the program has ended."""
        before, end = len(self.screen), time.monotonic() + PATIENCE
        while not self.screen[before:].endswith(b"> "):
            assert select.select([self.ours], [], [], max(0.0, end - time.monotonic()))[0], self.screen
            try:
                new = os.read(self.ours, 4096)
            except OSError:  # the end of a terminal
                new = b""
            self.screen += new
            if not new:
                break
        return self.screen[before:].decode().replace("\r", "").split("\n")

    def type(self, text: bytes) -> list[str]:
        """The lines after the one that was typed."""
        os.write(self.ours, text)
        return self.until_prompt()[1:]

    def end(self) -> int:
        """The exit code."""
        code = self.process.wait(PATIENCE)
        os.close(self.ours)
        return code


@pytest.mark.parametrize("end", [b"\x04", b"\x03"], ids=["Ctrl-D", "Ctrl-C"])
def test_a_terminal_has_a_prompt_and_ends_cleanly(talker: str, said: list[str], end: bytes) -> None:
    terminal = Terminal(talker)
    *head, prompt = terminal.until_prompt()
    assert head == [READS.strip(), "antiphon: type a line and press Enter; /help lists the commands, Ctrl-D ends"]
    assert prompt == "> "
    first, second = terminal.type(b"a b\n")[0], terminal.type(b"c\n")[0]
    assert [first, second] == [said[0], said[1].replace("\x1b", "␛")], "an answer cannot steer the terminal"
    assert "\x1b" in said[1]
    assert terminal.type(b"\n") == ["> "], "an empty line is no turn"
    *shown, prompt = terminal.type(b"/history\n")
    assert (shown, prompt) == (["> a b", first, "> c", second], "> ")
    time.sleep(1.0)  # Python's readline misses a signal in the moment in which it begins to wait for a key
    ended = terminal.type(end)
    assert [line for line in ended if line.strip()] == []
    assert terminal.end() == 0
    assert b"Traceback" not in terminal.screen


def test_a_line_that_cannot_be_answered_does_not_end_what_is_typed(
    talker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = library.load(talker)
    model.limits = Limits(encoder=4)
    converse(Conversation(model), iter(["a b c d e", "a b"]), typed=True)
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 1
    assert "'a b c d e': 6 tokens with </s>, but the encoder has learnt 4 positions" in shown.err
    with pytest.raises(UserError, match="the encoder has learnt 4 positions"):
        converse(Conversation(model), iter(["a b c d e", "a b"]), typed=False)
