"""A browser for each file, and for a whole session the servers whose page it shows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_runs
from chromium import CHROMIUM
from hostile_model import HOSTILE_RUN, hostile_folder
from running_server import RunningServer, serving
from tiny_generators import tiny_folder

if CHROMIUM is None:
    collect_ignore_glob = ["test_*.py"]  # tests/conftest.py says so at the end
else:
    from playwright.sync_api import Browser, sync_playwright
    from watched_page import FLAGS, OTHER_NAME, WatchedPage

OPEN_MODELS = ("bahdanau", "transformer")
LAZY_MODELS = ("static",)
KEY = "a-key-of-the-tests"

Open = Callable[..., "WatchedPage"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One for a file: while Playwright runs, no other test can run an event loop."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens tabs, each as another visitor; at the end none of them may have a problem."""
    opened: list[WatchedPage] = []

    def open_tab(server: RunningServer | None = None, **options: Any) -> WatchedPage:  # noqa: ANN401 - of a context
        running = server or request.getfixturevalue("lab")
        context = chromium.new_context(**{"reduced_motion": "reduce", **options})
        opened.append(WatchedPage(context, running.url))
        return opened[-1]

    yield open_tab
    problems = [problem for one in opened for problem in one.unexpected]
    for one in opened:
        one.context.close()
    assert problems == []


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: two trainings, one of them a copy that has not ended, and models that have learnt nothing."""
    folder = tmp_path_factory.mktemp("browser") / "runs"
    folder.mkdir()
    pairs = folder / "pairs.tsv"
    tiny_runs.write_pairs(pairs)
    tiny_runs.run(tiny_runs.tiny_config(pairs, training={"evaluate_every": 2}), folder / "first")
    tiny_runs.run(tiny_runs.tiny_config(pairs, training={"learning_rate": 0.5}), folder / "second")
    shutil.copytree(folder / "first", folder / "halted")
    (folder / "halted" / "summary.json").unlink()
    for kind in LAZY_MODELS:
        tiny_folder(kind, folder / kind)
    hostile_folder(folder / HOSTILE_RUN)
    return folder


@pytest.fixture(scope="session")
def lab(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with two models, and with a folder whose runs are loaded when they are asked."""
    folder = tmp_path_factory.mktemp("models")
    models = [tiny_folder(kind, folder / kind) for kind in OPEN_MODELS]
    with serving(*models, runs, options=["--loaded", "12", "--allow-host", OTHER_NAME]) as running:
        yield running


@pytest.fixture(scope="session")
def library(runs: Path) -> Iterator[RunningServer]:
    """A server with the folder alone: no model is loaded before it is asked."""
    with serving(runs) as running:
        yield running


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with one model that wants a key."""
    model = tiny_folder("static", tmp_path_factory.mktemp("guarded") / "static")
    with serving(model, options=["--api-key", KEY]) as running:
        yield running
