"""The demo from beginning to end, made small: what it shows, and that what it says to type can be typed."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console

from antiphon.cli.main import app
from antiphon.config.load import read_config
from antiphon.config.schema import Config
from antiphon.data.pairs import Example
from antiphon.training import demo

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
SMALL = [
    'data.train="@cmudict/dev"', "data.dev=null", "data.hold_out=0.005",
    "model.encoder.size=8", "model.decoder.size=8",
    "training.max_updates=3", "training.evaluate_every=3", "training.dev_examples=4", "training.batch_tokens=256",
    "decoding.beam=2", "decoding.max_length=8",
]  # fmt: skip


@pytest.fixture
def shown(antiphon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:  # noqa: ANN001, ANN401
    def small(name: str) -> Config:
        return read_config(name, SMALL)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "read_config", small)
    monkeypatch.setattr(demo, "MEASURED", 15)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(sys, "argv", [".venv/bin/antiphon", "demo"])
    ended = antiphon("demo", "--out", "my run")
    assert ended.code == 0, ended.err
    return ended


def test_the_demo(antiphon, shown) -> None:  # noqa: ANN001
    run = Path("my run")
    marked = [line for line in shown.lines if re.match(r"  [✓✗] [A-Z']+ ", line)]
    assert len(marked) == demo.SHOWN
    measured = r"15 held-out words: phoneme error rate \d+\.\d % \(\d+\.\d to \d+\.\d\), \d+\.\d % of the words right"
    assert re.search(measured, " ".join(shown.out.split()))
    assert (run / "attention" / "ANTIPHON.png").read_bytes().startswith(b"\x89PNG")
    picture = shown.out.split("Attention while answering ANTIPHON\n")[1].split("the same as a picture")[0]
    assert any(shade in picture for shade in "░▒▓█")
    assert all(letter in picture for letter in "ANTIPHO")
    assert (run / "report.html").exists()
    assert_can_be_typed(shown.out)

    again = antiphon("demo", "--out", "my run")
    assert "this run is finished" in again.err
    fresh = antiphon("demo", "--out", "my run", "--fresh")
    assert "this run is finished" not in fresh.err
    assert again.out == shown.out == fresh.out  # the same seed, the same words


def assert_can_be_typed(out: str) -> None:
    """As the shell and the command line parse it."""
    lines = [line for line in out.split("Next\n")[1].split("\n") if ".venv/bin/antiphon" in line]
    names = []
    for line in lines:
        words = shlex.split(line.split(" | ")[-1], comments=True)
        assert words[0] == ".venv/bin/antiphon"
        COMMANDS[words[1]].make_context(words[1], words[2:])
        names.append(words[1])
        assert "my run" in words or words[1] == "init"
    assert names == ["serve", "generate", "explain", "evaluate", "init"]


def test_right_and_wrong_are_marked() -> None:
    class Parrot:
        """Says the word itself."""

        def generate(self, texts: list[str], weights: bool) -> list[SimpleNamespace]:  # noqa: ARG002
            return [SimpleNamespace(text=text) for text in texts]

    console = Console(file=io.StringIO(), width=80)
    examples = [Example(("A",), ("A",), 1), Example(("B",), ("x [b]", "y"), 2), Example(("C",), ("z", "C"), 3)]
    demo._show_answers(Parrot(), examples, console)  # type: ignore[arg-type]
    lines = console.file.getvalue().rstrip("\n").split("\n")  # type: ignore[attr-defined]
    assert [line[:5] for line in lines[-3:]] == ["  ✓ A", "  ✗ B", "  ✓ C"]
    assert lines[-2].endswith("B   (dictionary: x [b])")
