"""Joins the requests of all clients into batches. A free lane takes what is waiting at once, and waits for no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["BatchLimits", "Batcher", "Cancelled", "Part", "Request"]


class Cancelled(Exception):  # noqa: N818 - no error: nobody waits for the answer any more
    """All requests of a batch were cancelled."""


class Request:
    """A request of a client that waits for the results of its jobs."""

    def __init__(self, count: int, finish: Callable[[list[Any]], None], fail: Callable[[Exception], None]) -> None:
        """`finish` is called once with all results in order, or else `fail` with the first exception."""
        self.cancelled = False
        self.results: list[Any] = [None] * count
        self._left, self._finish, self._fail, self._lock = count, finish, fail, threading.Lock()

    def put(self, index: int, result: object) -> None:
        """The result of one job."""
        self.results[index] = result
        with self._lock:
            self._left -= 1
            done = self._left == 0 and not self.cancelled
        if done:
            try:
                self._finish(self.results)
            except Exception as error:
                self.fail(error)

    def fail(self, error: Exception) -> None:
        """Ends the request; what is left of it is not computed."""
        with self._lock:
            first, self.cancelled = not self.cancelled, True
        if first:
            self._fail(error)

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        with self._lock:
            self.cancelled = True


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a request, and how it is computed: with others of its group, or alone."""

    payload: Any
    work: Callable[[list[Any]], Sequence[object]]  # a result for each payload
    group: Hashable = None  # None: alone
    length: int = 1  # positions to read
    width: int = 1  # hypotheses


@dataclass(frozen=True, eq=False)
class Job:
    """A part that waits."""

    request: Request
    index: int  # of its result in the request
    part: Part


@dataclass(frozen=True)
class BatchLimits:
    """The size of a batch: positions (hypotheses x the longest source; None: any number) and inputs."""

    positions: int | None
    inputs: int

    def fitting(self, first: Job, others: list[Job]) -> list[Job]:
        """The jobs among `others`, nearest in length first, that fit beside the first."""
        chosen, longest = [first], first.part.length
        for job in others:
            longest = max(longest, job.part.length)
            full = self.positions is not None and (len(chosen) + 1) * longest * first.part.width > self.positions
            if full or len(chosen) == self.inputs:
                break
            chosen.append(job)
        return chosen


class Batcher:
    """Lanes, each a thread that computes one batch at a time, and the jobs that wait for them."""

    def __init__(
        self,
        lanes: int,
        limits: BatchLimits,
        *,
        prepare: Callable[[], None] = lambda: None,
        report: Callable[[int, float], None] = lambda _inputs, _seconds: None,
    ) -> None:
        """`prepare` is called at the start of each lane, `report` after each batch with its inputs and seconds."""
        self.limits = limits
        self._prepare, self._report = prepare, report
        self._waiting: list[Job] = []  # oldest first
        self._free, self._closed = lanes, False
        self._change = threading.Condition()
        self._current = threading.local()
        self._lanes = [threading.Thread(target=self._run, name=f"lane-{n + 1}", daemon=True) for n in range(lanes)]
        for lane in self._lanes:
            lane.start()

    def submit(self, request: Request, parts: Sequence[Part]) -> None:
        """Add the parts of a request behind those that wait."""
        with self._change:
            self._waiting += [Job(request, index, part) for index, part in enumerate(parts)]
            self._change.notify(len(parts))

    def cancel(self, request: Request) -> None:
        """Take a request out: its parts that wait at once, a batch of nothing else at the next step of its search."""
        request.cancel()
        with self._change:
            self._waiting = [job for job in self._waiting if job.request is not request]

    def check(self) -> None:
        """Raise Cancelled if nobody waits for the batch of this lane any more; called before each step of a search."""
        jobs: list[Job] = getattr(self._current, "jobs", [])
        if jobs and all(job.request.cancelled for job in jobs):
            raise Cancelled

    def close(self) -> None:
        """Stop the lanes after their batches."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def _run(self) -> None:
        self._prepare()
        while jobs := self._take():
            self._current.jobs = jobs
            self._compute(jobs)
            with self._change:
                self._free += 1

    def _take(self) -> list[Job]:
        """The oldest job and those that can join its batch; waits for one. Empty when the batcher is closed."""
        with self._change:
            while True:
                self._waiting = [job for job in self._waiting if not job.request.cancelled]
                if self._closed:
                    return []
                if self._waiting:
                    break
                self._change.wait()
            chosen = self._choose()
            taken = {id(job) for job in chosen}
            self._waiting = [job for job in self._waiting if id(job) not in taken]
            self._free -= 1
            return chosen

    def _choose(self) -> list[Job]:
        """The oldest job and those of its group that are nearest in length; other free lanes get their share."""
        first = self._waiting[0]
        if first.part.group is None:
            return [first]
        alike = [job for job in self._waiting[1:] if job.part.group == first.part.group]
        share = -(-(len(alike) + 1) // max(1, self._free))
        alike.sort(key=lambda job: abs(job.part.length - first.part.length))
        return self.limits.fitting(first, alike[: share - 1])

    def _compute(self, jobs: list[Job]) -> None:
        """Compute a batch; if it fails, each job by itself, so that one bad input fails alone."""
        began = time.perf_counter()
        try:
            results = jobs[0].part.work([job.part.payload for job in jobs])
            found = list(zip(jobs, results, strict=True))
        except Cancelled:
            return
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].request.fail(error)
                return
            for job in jobs:
                self._current.jobs = [job]
                if not job.request.cancelled:
                    self._compute([job])
            return
        self._report(len(jobs), time.perf_counter() - began)
        for job, result in found:
            job.request.put(job.index, result)
