"""Fixtures of every test: a cache of its own, one thread, and property tests without deadlines."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
import torch
from chromium import CHROMIUM, NOT_RUN
from hypothesis import settings

# Two busy cores make any deadline a coin toss; no database, so that a test run leaves nothing in the tree.
settings.register_profile("antiphon", deadline=None, database=None)
settings.load_profile("antiphon")

# Models as small as these only wait for one another on several threads.
torch.set_num_threads(1)

# What collecting makes (eight thousand tests, the trees of their files) stays: looking for what can go is in vain.
gc.disable()


def pytest_collection_finish() -> None:
    """Torch and eight thousand tests stay in memory to the end: the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """A sync guards against a machine that stops, which no test here can see; commands that tests start do sync."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is read from or written to the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTIPHON_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def no_pictures() -> Iterator[None]:
    """For runs of which something else is asked: their pictures take most of the time."""
    from antiphon.training import endings

    with pytest.MonkeyPatch.context() as patch:
        for name in ("draw_curves", "draw_answer"):
            patch.setattr(endings, name, lambda *_, **__: None)
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly that nobody has looked at the page, if there is no browser to look at it with."""
    if CHROMIUM is None:
        terminalreporter.section("THE BROWSER TESTS DID NOT RUN", red=True, bold=True)
        terminalreporter.write_line(NOT_RUN, red=True)
