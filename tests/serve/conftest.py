"""Servers that the tests share: one for a whole session, with a model that attends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_server import RunningServer, serving
from served_models import model_folder
from tiny_generators import tiny_folder

KEY = "the-key-of-the-tests"


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
def transformer_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model folder of a Transformer."""
    return tiny_folder("transformer", tmp_path_factory.mktemp("serve") / "transformer")


@pytest.fixture(scope="session")
def translator(bahdanau_run: str, transformer_run: str) -> Iterator[RunningServer]:
    """A server with a key, a queue of one, and two models told apart by their languages: en-de and en-fr."""
    languages = ["--languages", "en-de", "--languages", "en-fr"]
    limits = ["--api-key", KEY, "--queue", "1", "--wait", "0.1"]
    with serving(bahdanau_run, transformer_run, options=[*languages, *limits]) as running:
        yield running


@pytest.fixture(scope="session")
def assorted_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Model folders by name: no attention, a language model, a picture, four sources, a tagger."""
    folder = tmp_path_factory.mktemp("assorted")
    return {kind: model_folder(kind, folder / kind) for kind in ("static", "rnn-lm", "image", "several", "tagger")}


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for temporary files of the server with models of each kind."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="session")
def assorted(assorted_runs: dict[str, str], scratch: Path) -> Iterator[RunningServer]:
    """A server with a model of each of these kinds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(scratch))
        with serving(*assorted_runs.values()) as running:
            yield running
