"""The Python of docs/python.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from antiphon.cli.main import run
from antiphon.errors import Interrupted

TEXT = (Path(__file__).parents[2] / "docs" / "python.md").read_text("utf-8")


@pytest.mark.usefixtures("no_pictures")
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(first, names)  # noqa: S102
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 2
    assert "done: all 20 updates done" in shown.err
    try:
        exec(second, names)  # noqa: S102
    except Interrupted as stopped:
        assert stopped.exit_code == 130  # noqa: PT017
    assert (tmp_path / "runs" / "watched" / "report.html").is_file()


def test_the_commands_of_the_cache_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path))
    assert [run(["cache", action]) for action in ("ls", "clear")] == [0, 0]
