"""Runs of a folder as models: loaded when they are asked, again when they have better weights, and not too many."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from antiphon.errors import UserError
from antiphon.serve.models import Log, Model
from antiphon.serve.refusals import Refusal
from antiphon.serve.run_listing import RunListing, weights_signature
from antiphon.serve.serve_settings import ServedModel, ServeSettings
from antiphon.serve.server_metrics import Metrics

__all__ = ["OpenedRuns"]


@dataclass(eq=False)
class OpenedRun:
    """A run that is loaded, or being loaded."""

    model: Model
    signature: tuple[int, int]  # of the weights it was loaded with
    starting: asyncio.Task[None]


class OpenedRuns:
    """The runs below the folders of a server; at most `loaded` of them have a process."""

    def __init__(self, settings: ServeSettings, *, log: Log, metrics: Metrics) -> None:
        self.settings, self.log, self.metrics = settings, log, metrics
        self.listing = RunListing(settings.folders)
        self._opened: dict[str, OpenedRun] = {}  # the least recently used first
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def models(self) -> list[Model]:
        """The models that are loaded."""
        return [opened.model for opened in self._opened.values()]

    def open(self, name: str) -> Model | None:
        """The model of a run with its best weights so far, which may still be loading; None if there is no such run."""
        path = self.listing.paths().get(name)
        if path is None:
            return None
        if not (path / "model.json").is_file():
            problem = f"run {name}: has no weights yet; a training writes them at its first evaluation"
            raise Refusal(503, "no_weights", problem, param="model", retry_after=10)
        opened, signature = self._opened.pop(name, None), weights_signature(path)
        if opened is not None and self._is_old(opened, signature):
            self._end(opened)
            opened = None
        if opened is None:
            opened = self._start(name, path, signature)
        self._opened[name] = opened  # the most recently used is the last
        return opened.model

    async def stop(self) -> None:
        """End all processes."""
        for opened in self._opened.values():
            self._end(opened)
        await asyncio.gather(*self._ending)

    @staticmethod
    def _is_old(opened: OpenedRun, signature: tuple[int, int]) -> bool:
        """It has older weights, or could not be loaded; but what it still works at is not given up."""
        failed = bool(opened.model.problems) and not opened.model.ready
        return opened.model.queue.used == 0 and (failed or opened.signature != signature)

    def _start(self, name: str, path: Path, signature: tuple[int, int]) -> OpenedRun:
        self._make_room()
        model = Model(
            ServedModel(name, (path,)), self.settings, log=self.log, report=partial(self.metrics.report, name)
        )
        return OpenedRun(model, signature, asyncio.create_task(_started(model), name=f"run {name}"))

    def _make_room(self) -> None:
        """End the run that was used least recently and works at nothing."""
        while len(self._opened) >= self.settings.loaded:
            idle = next((name for name, opened in self._opened.items() if opened.model.queue.used == 0), None)
            if idle is None:
                problem = f"{self.settings.loaded} other runs are busy; try again soon, or start with more --loaded"
                raise Refusal(503, "busy", problem, retry_after=5)
            self._end(self._opened.pop(idle))

    def _end(self, opened: OpenedRun) -> None:
        task = asyncio.create_task(_ended(opened))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _started(model: Model) -> None:
    with contextlib.suppress(UserError):  # requests are told
        await model.start()


async def _ended(opened: OpenedRun) -> None:
    opened.starting.cancel()
    await asyncio.gather(opened.starting, return_exceptions=True)
    await opened.model.stop()
