"""Servers that the tests share: one for a whole session, with a model that attends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_server import RunningServer, serving
from tiny_generators import tiny_folder


@pytest.fixture(scope="session")
def bahdanau_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model folder of an attending GRU."""
    return tiny_folder("bahdanau", tmp_path_factory.mktemp("serve") / "bahdanau")


@pytest.fixture(scope="session")
def server(bahdanau_run: str) -> Iterator[RunningServer]:
    """A server with this model."""
    with serving(bahdanau_run) as running:
        yield running


@pytest.fixture(scope="session")
def two_models(bahdanau_run: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with two models, told apart by their languages."""
    other = tiny_folder("transformer", tmp_path_factory.mktemp("serve") / "transformer")
    with serving(Path(bahdanau_run), Path(other), options=["--languages", "en-de", "--languages", "en-fr"]) as running:
        yield running
