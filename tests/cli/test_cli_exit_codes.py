"""Every way to end has its exit code and its one line."""

from __future__ import annotations

import errno
import io
import json
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from antiphon import model_folder
from antiphon.cli.io import print_json, print_line
from antiphon.errors import ConfigError, DiskError, Interrupted
from antiphon.text import visible

MAIN = [sys.executable, "-m", "antiphon.cli.main"]


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let `antiphon generate` meet an error."""

    def load(run: Path, *, combine: str, precision: str | None) -> None:  # noqa: ARG001
        raise error

    monkeypatch.setattr(model_folder, "load", load)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            ConfigError(["a: wrong; mend it", "b: wrong; mend it"]),
            2,
            "antiphon: a: wrong; mend it\nantiphon: b: wrong; mend it\n",
        ),
        (DiskError("x: no space"), 2, "antiphon: x: no space\n"),
        (Interrupted(143, "saved in run"), 143, "antiphon: saved in run\n"),
        (Interrupted(130, "saved in run"), 130, "antiphon: saved in run\n"),
        (KeyboardInterrupt(), 130, "antiphon: interrupted\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 0, ""),
        (
            OSError(errno.ENOSPC, "No space left on device", "x.txt"),
            2,
            "antiphon: x.txt: No space left on device; free some space, or choose another folder\n",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_endings(antiphon, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, words: str) -> None:  # noqa: ANN001
    fail_with(monkeypatch, error)
    ended = antiphon("generate", "run")
    assert (ended.code, ended.out, ended.err) == (code, "", words)


def test_our_bug_is_one_line_and_a_file_with_the_traceback(
    antiphon,  # noqa: ANN001
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fail_with(monkeypatch, ZeroDivisionError("of\nours"))
    ended = antiphon("generate", "run")
    assert ended.code == 1
    found = re.fullmatch(
        r"antiphon: this is a bug in Antiphon: ZeroDivisionError: of ours; please report it with the file (.*)\n",
        ended.err,
    )
    assert found is not None
    assert "Traceback (most recent call last)" in Path(found[1]).read_text()


def test_a_reader_who_leaves_is_no_error() -> None:
    with subprocess.Popen([*MAIN, "recipes", "cat", "g2p"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_full_disk_behind_stdout() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*MAIN, "recipes", "cat", "g2p"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("antiphon: output: No space left on device")
    assert "Traceback" not in done.stderr


def test_control_characters_are_made_visible() -> None:
    assert visible("a\x1b[31mb\x07\x9b\x7f\r é😀", keep=" ") == "a␛[31mb␇U+009B␡␍ é😀"


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_text_cannot_drive_a_terminal_and_files_get_it_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, expected in ((Screen(), "a␛[2Jb\\n\tc\n"), (io.StringIO(), "a\x1b[2Jb\\n\tc\n")):
        monkeypatch.setattr(sys, "stdout", stream)
        print_line("a\x1b[2Jb\n", "c")
        assert stream.getvalue() == expected


def test_json_is_json_whatever_the_numbers_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream := io.StringIO())
    print_json({"text": "é\x9b\x1b\u2028", "numbers": [1.5, float("nan"), {"low": -float("inf")}]})
    line = stream.getvalue()
    assert "\x9b" not in line
    assert "é" in line
    assert json.loads(line, parse_constant=pytest.fail) == {
        "text": "é\x9b\x1b\u2028",
        "numbers": [1.5, None, {"low": None}],
    }


def test_demo_runs_the_demo(antiphon, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN001
    asked: list[tuple[Path, bool]] = []

    def run_demo(out: Path, display: object, console: object, *, program: str, fresh: bool) -> None:  # noqa: ARG001
        asked.append((out, fresh))

    demo = types.ModuleType("antiphon.training.demo")
    monkeypatch.setattr(demo, "run_demo", run_demo, raising=False)
    monkeypatch.setitem(sys.modules, "antiphon.training.demo", demo)
    assert antiphon("demo").code == 0
    assert antiphon("demo", "--out", "x", "--fresh").code == 0
    assert asked == [(Path("runs/demo"), False), (Path("x"), True)]
