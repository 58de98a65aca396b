"""How fast models answer on this machine, side by side.

Each has a process of its own. Side by side in one process they would disturb each other: once torch has used its
threads, those of CTranslate2 are several times slower.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from antiphon.errors import UserError

__all__ = ["Contestant", "Speed", "compare"]


@dataclass(frozen=True)
class Contestant:
    """A model, as it was asked for."""

    name: str
    path: str


@dataclass(frozen=True)
class Speed:
    """Medians over the rounds."""

    name: str
    engine: str
    sentences: float  # a second, in batches
    words: float  # written, a second, in batches
    single: float  # sentences a second, one by one
    p50: float  # milliseconds a sentence, one by one
    p95: float
    memory: float  # MB of its process at its peak


@dataclass
class Worker:
    """The process of a contestant, and what it took so far."""

    one: Contestant
    process: subprocess.Popen[str]
    engine: str = ""
    together: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    words: int = 0
    memory: float = 0.0

    def tell(self, line: str) -> dict[str, Any]:
        """Sends a line and waits for the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise UserError(f"{self.one.name}: its process has ended; antiphon generate {self.one.path} may say why")
        found: dict[str, Any] = json.loads(answer)
        return found

    def round(self, *, counted: bool) -> None:
        """All texts in batches, then some one by one."""
        batch, single = self.tell("batch"), self.tell("single")
        if counted:
            self.together += batch["seconds"]
            self.alone += single["seconds"]
        self.words, self.memory = batch["words"], single["memory"]

    def speed(self, texts: int) -> Speed:
        seconds, singles = statistics.median(self.together), sorted(self.alone)
        return Speed(
            name=self.one.name,
            engine=self.engine,
            sentences=texts / seconds,
            words=self.words / seconds,
            single=len(singles) / sum(singles),
            p50=1000 * statistics.median(singles),
            p95=1000 * singles[math.ceil(0.95 * len(singles)) - 1],
            memory=self.memory,
        )


def compare(
    contestants: list[Contestant],
    texts: list[str],
    *,
    beam: int | None,
    batch_size: int | None,
    rounds: int,
    say: Callable[[str], None] = lambda _: None,
) -> list[Speed]:
    """They answer in turn, one at a time, round after round, after a round to get warm."""
    if not texts:
        raise UserError("nothing to answer; give a file with at least one line")
    workers = [_started(one, beam, batch_size) for one in contestants]
    try:
        for worker in workers:
            worker.engine = worker.tell(json.dumps(texts))["engine"]
        for number in range(rounds + 1):
            say("getting warm" if number == 0 else f"round {number} of {rounds}")
            for worker in workers:
                worker.round(counted=number > 0)
        return [worker.speed(len(texts)) for worker in workers]
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.communicate()


def _started(one: Contestant, beam: int | None, batch_size: int | None) -> Worker:
    command = [sys.executable, "-m", "antiphon.evaluation.bench_worker", one.path]
    command += [str(beam or 0), str(batch_size or 0)]
    process = subprocess.Popen(  # noqa: S603 (our own module)
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return Worker(one, process)
