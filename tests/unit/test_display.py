"""The display of a training run."""

from __future__ import annotations

import io
import re

from rich.console import Console

from antiphon.training.display import DevSample, LiveDisplay, PlainDisplay

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


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=200, color_system=None)


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.file.getvalue())  # what moves the cursor


def test_plain_lines() -> None:
    display = PlainDisplay(shown := console(terminal=False))
    display.update(UPDATE, 100)
    display.update({**UPDATE, "update": 51}, 100)
    display.evaluation(ROW, METRICS, True, SAMPLES)
    first, second, *samples = text(shown).splitlines()
    assert first == "update 50/100  epoch 1  loss 1.500  4321 tokens/s  padding 4.5%  learning rate 1.00e-03  1:01 left"
    assert second.startswith("evaluation at update 120  epoch 1.5  train loss 0.500  dev loss 0.250  exact_match 75.00")
    assert second.endswith("★ best so far")
    assert samples == ["    ✓ a b → b a", "    ✗ [red]x␛[2J → y", "    · The  → The end"]


def test_the_live_table_has_one_head_and_columns_that_do_not_touch() -> None:
    display = LiveDisplay(shown := console(terminal=True))
    display.update(UPDATE, 100)
    display.evaluation(ROW, METRICS, True, SAMPLES)
    display.evaluation({**ROW, "update": 240}, METRICS, False, [])
    display.close()
    lines = text(shown).replace("\r", "\n").splitlines()
    (head,) = [line for line in lines if "token_accuracy" in line]
    assert head.split() == ["update", "epoch", "train", "loss", "dev", "loss", "exact_match", "token_accuracy"]
    (best,) = [line for line in lines if "★" in line]
    assert best.split() == ["120", "1.5", "0.500", "0.250", "75.00", "90.12", "★"]
    assert any("[red]x␛[2J" in line for line in lines)
    assert any("4,321 tokens/s" in line and "4.5%" in line for line in lines)
