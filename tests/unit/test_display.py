"""The display of a training run."""

from __future__ import annotations

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from antiphon.cli.io import print_note, say
from antiphon.text import pack
from antiphon.training.display import DevSample, LiveDisplay, PlainDisplay, cut_together

ROW = {
    "update": 120,
    "epoch": 1.5,
    "train_loss": 0.5,
    "dev_loss": 0.25,
    "exact_match": 75.0,
    "token_accuracy": 90.125,
}
UPDATE = {
    "update": 50,
    "epoch": 0,
    "loss": 1.5,
    "tokens_per_second": 4321.0,
    "padding": 0.045,
    "learning_rate": 1e-3,
    "remaining": 61.0,
}
METRICS = ["exact_match", "token_accuracy"]
SAMPLES = [DevSample("a b", "b a", ("b a", "c")), DevSample("[red]x\x1b[2J", "y", ("z",)), DevSample("The ", "The end")]


LONG = [DevSample("你好 " * 40, "b" * 90, ("short",)), DevSample("x" * 200, "y" * 200, ("y" * 200,))]
MANY = ["exact_match", "token_accuracy", "cer", "wer", "bleu", "chrf", "bits_per_character"]
LAST = {**ROW, "update": 19_950, "epoch": 38.9, **dict.fromkeys(MANY, 99.99)}


def console(terminal: bool, width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None)


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.file.getvalue())  # what moves the cursor


def test_plain_lines() -> None:
    display = PlainDisplay(shown := console(terminal=False, width=200))
    display.update(UPDATE, 100)
    display.update({**UPDATE, "update": 51}, 100)
    display.evaluation(ROW, METRICS, True, SAMPLES)
    first, second, *samples = text(shown).splitlines()
    assert first == "update 50/100  epoch 1  loss 1.500  1:01 left  4,321 tokens/s  rate 1.00e-03  padding 4.5%"
    assert second.startswith("evaluation at update 120  epoch 1.5  train loss 0.500  dev loss 0.250  exact_match 75.00")
    assert second.endswith("★ best so far")
    assert samples == ["    ✓ a b → b a", "    ✗ [red]x␛[2J → y (right: z)", "    · The  → The end"]


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("live", [True, False])
def test_nothing_wraps(live: bool, width: int) -> None:
    display = (LiveDisplay if live else PlainDisplay)(shown := console(terminal=live, width=width))
    display.update({**UPDATE, "update": 12_350, "epoch": 38, "tokens_per_second": 54_321.0, "remaining": 9e4}, 20_000)
    display.evaluating()
    display.evaluation(LAST, MANY, True, [*SAMPLES, *LONG])
    display.close()
    lines = text(shown).replace("\r", "\n").splitlines()
    assert max(map(cell_len, lines)) <= width
    assert any("✗ 你好" in line and line.endswith("(right: short)") for line in lines)
    assert live or all(any(f"{name} 99.99" in line for line in lines) for name in MANY)


def test_messages_for_a_terminal_break_between_words_and_others_do_not_break() -> None:
    message = "warning: " + "many words " * 20 + "/a/path" * 20
    LiveDisplay(live := console(terminal=True)).log(message)
    *lines, path = text(live).splitlines()
    assert [*" ".join(lines).split(), path.strip()] == message.split()
    assert max(map(len, lines)) <= 80
    PlainDisplay(plain := console(terminal=False)).log(message)
    assert text(plain) == message + "\n"


def test_the_live_table_has_one_head_and_columns_that_do_not_touch() -> None:
    display = LiveDisplay(shown := console(terminal=True))
    display.evaluation(ROW, METRICS, True, SAMPLES)
    display.evaluation({**ROW, "update": 240}, METRICS, False, [])
    upper, lower, best, *_, second = text(shown).splitlines()
    assert upper.split() == ["train", "dev", "exact", "token"]
    assert lower.split() == ["update", "epoch", "loss", "loss", "match", "accuracy"]
    assert best.split() == ["120", "1.5", "0.500", "0.250", "75.00", "90.12", "★"]
    assert second.split()[0] == "240"
    assert "✗ [red]x␛[2J → y (right: z)" in text(shown)


def test_a_figure_without_room_is_rounded() -> None:
    LiveDisplay(shown := console(terminal=True)).evaluation(
        {**ROW, "train_loss": 123_456.0, "exact_match": 1e10, "token_accuracy": -1234.5}, METRICS, False, []
    )
    assert text(shown).splitlines()[-1].split() == ["120", "1.5", "1.2e+05", "0.250", "1.0e+10", "-1.2e+03"]


def test_columns_without_room_are_left_out_of_the_table() -> None:
    LiveDisplay(shown := console(terminal=True)).evaluation(LAST, MANY, False, [])
    _, lower, row = text(shown).splitlines()
    assert lower.split() == ["update", "epoch", "loss", "loss", "match", "accuracy", "cer", "wer", "bleu", "…"]
    assert len(row.split()) == 9


def test_the_bar_counts_updates_and_says_when_it_evaluates() -> None:
    display = LiveDisplay(shown := console(terminal=True, width=120))
    display.update({**UPDATE, "remaining": 3725.0}, 100)
    display.evaluating()
    display.close()
    first, *others = [line for line in text(shown).replace("\r", "\n").splitlines() if "epoch" in line]
    assert first.endswith("50/100 updates  loss 1.500  4,321 tokens/s  padding 4.5%  1:02:05 left")
    assert any(line.endswith("50/100 updates  evaluating") for line in others)


def test_texts_are_cut_together() -> None:
    assert cut_together(["abc", "x" * 50, "y" * 50], 23) == ["abc", "x" * 9 + "…", "y" * 9 + "…"]
    assert cut_together(["你好你好", "ab"], 7) == ["你好…", "ab"]
    assert cut_together(["abc", "de"], 5) == ["abc", "de"]
    assert pack(["a" * 6, "b", "c" * 4], 9) == ["aaaaaa  b", "    cccc"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_command_breaks_its_messages_in_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", stream)
        say("many words " * 20)
        lines = stream.getvalue().splitlines()
        assert (len(lines) > 2) == (max(map(len, lines)) <= 80) == stream.isatty()
        assert stream.getvalue().split() == ["antiphon:", *["many", "words"] * 20]
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stdout", stream)
        print_note("name", "many words " * 20)
        lines = stream.getvalue().splitlines()
        assert (len(lines) > 2) == (max(map(len, lines)) <= 80) == stream.isatty()
        assert ("\t" in stream.getvalue()) != stream.isatty()
