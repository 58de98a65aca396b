"""Help is complete and imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

from antiphon import __version__
from antiphon.cli.io import METRICS
from antiphon.config.schema import Metric

COMMANDS = [
    "init",
    "check",
    "train",
    "generate",
    "chat",
    "score",
    "evaluate",
    "explain",
    "map",
    "joint",
    "shortlist",
    "export",
    "import",
    "serve",
    "bench",
    "recipes",
    "cache",
    "demo",
]
# Not pydantic: some versions of typer import it themselves for a command's options.
HEAVY = ["torch", "numpy", "matplotlib", "rich", "yaml", "tokenizers", "sacrebleu", "antiphon.config.schema"]


def test_help_lists_the_commands_in_order(antiphon) -> None:  # noqa: ANN001
    ended = antiphon("--help")
    assert ended.code == 0
    listed = ended.out.split("Commands:\n")[1].split("\n")
    assert [line.split()[0] for line in listed if line.strip()] == COMMANDS
    assert "..." not in ended.out.split("Commands:\n")[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(antiphon, command: str) -> None:  # noqa: ANN001
    ended = antiphon(command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"Usage: antiphon {command}")


def test_help_says_where_defaults_come_from(antiphon) -> None:  # noqa: ANN001
    generate, evaluate = (" ".join(antiphon(name, "--help").out.split()) for name in ("generate", "evaluate"))
    for key in ("beam", "max_length", "length_penalty", "batch_size"):
        assert f"Default: the model's decoding.{key}." in generate
    assert "</s> counts" in generate
    assert ", ".join(METRICS) in evaluate
    assert "Default: the model's evaluation.metrics." in evaluate
    assert get_args(Metric) == METRICS


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["generate", "--help"], ["--version"]])
def test_nothing_heavy_is_imported_for_help(arguments: list[str]) -> None:
    code = (
        "import sys; from antiphon.cli.main import run; "
        f"code = run({arguments!r}); print(code, [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("0 []")


def test_version(antiphon) -> None:  # noqa: ANN001
    assert antiphon("--version").out == f"antiphon {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["trian"],
        ["train"],
        ["train", "reverse", "--nonsense"],
        ["generate", "run", "--beam", "two"],
        ["recipes", "mv"],
    ],
)
def test_wrong_usage_is_exit_2_with_a_sentence(antiphon, arguments: list[str]) -> None:  # noqa: ANN001
    ended = antiphon(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Error: " in ended.err
    assert "Traceback" not in ended.err
