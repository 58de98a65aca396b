"""Batches that threads read before they are asked for: decoding files takes time that a network need not wait for.

A batch is a pure function of its rows and the epoch, so it is the same whoever reads it, and whenever.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from antiphon.errors import DataError
from antiphon.sources.batches import Batch
from antiphon.sources.feed import Batches
from antiphon.sources.reading import UnreadableError

__all__ = ["AheadBatches", "reading_threads"]

Ints = npt.NDArray[np.integer[Any]]
MOST = 4  # threads


def reading_threads() -> int:
    """As many as there are cores for this process, within reason."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # macOS has none
    return min(MOST, cores)


class AheadBatches(Batches):
    """The batches of `inner`; while one is learnt from, the next few of the newest plan are read."""

    def __init__(self, inner: Batches, *, ahead: int = 4, threads: int | None = None) -> None:
        self.inner = inner
        self.ahead = ahead
        self._pool = ThreadPoolExecutor(threads or reading_threads(), thread_name_prefix="antiphon-reader")
        self._epoch = -1
        self._plan: list[Ints] = []
        self._places: dict[int, int] = {}  # the first row of a batch -> its place in the plan
        self._waiting: dict[int, Future[Batch]] = {}

    @property
    def forbidden(self) -> tuple[int, ...]:
        return self.inner.forbidden

    def plan(self, epoch: int) -> list[Ints]:
        for future in self._waiting.values():
            future.cancel()
        self._plan, self._epoch, self._waiting = self.inner.plan(epoch), epoch, {}
        self._places = {int(rows[0]): place for place, rows in enumerate(self._plan)}
        return self._plan

    def collate(self, rows: Ints, epoch: int) -> Batch:
        place = self._places.get(int(rows[0])) if epoch == self._epoch else None
        if place is None or not np.array_equal(self._plan[place], rows):
            return self._read(rows, epoch)
        for next_ in range(place, min(place + 1 + self.ahead, len(self._plan))):
            if next_ not in self._waiting:
                self._waiting[next_] = self._pool.submit(self._read, self._plan[next_], epoch)
        return self._waiting.pop(place).result()

    def tokens(self, rows: Ints) -> int:
        return self.inner.tokens(rows)

    def padding(self, batches: list[Ints]) -> float:
        return self.inner.padding(batches)

    def _read(self, rows: Ints, epoch: int) -> Batch:
        try:
            return self.inner.collate(rows, epoch)
        except UnreadableError as error:
            raise DataError(f"{error}; it could be read when training began, put it back and go on") from error
