"""The recipe `reverse`, trained once for all tests that look at it."""

from __future__ import annotations

from pathlib import Path

import pytest

import antiphon


@pytest.fixture(scope="session")
def reverse_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return antiphon.train("reverse", tmp_path_factory.mktemp("runs") / "reverse")
