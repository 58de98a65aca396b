"""How fast models answer on this machine, side by side."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from antiphon.decoding.generator import Generator
from antiphon.errors import UserError

__all__ = ["Contestant", "Speed", "compare", "peak_memory"]

ROUNDS = 3
SINGLES = 50  # texts that are answered one by one


@dataclass(frozen=True)
class Contestant:
    """A model, as it was asked for."""

    name: str
    path: str
    int8: bool
    generator: Generator


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
    memory: float  # MB at its peak, in a process of its own


def compare(
    contestants: list[Contestant],
    texts: list[str],
    *,
    beam: int | None,
    batch_size: int | None,
    rounds: int = ROUNDS,
    say: Callable[[str], None] = lambda _: None,
) -> list[Speed]:
    """Each answers all texts in batches and some one by one, in turn, round after round, after a round to get warm."""
    if not texts:
        raise UserError("nothing to answer; give a file with at least one line")
    few = texts[:: max(1, len(texts) // SINGLES)][:SINGLES]
    together: dict[str, list[float]] = {one.name: [] for one in contestants}
    alone: dict[str, list[float]] = {one.name: [] for one in contestants}
    words: dict[str, int] = {}
    for number in range(rounds + 1):
        say("getting warm" if number == 0 else f"round {number} of {rounds}")
        for one in contestants:
            seconds, written = _all(one.generator, texts, beam, batch_size)
            singles = [_all(one.generator, [text], beam, 1)[0] for text in few]
            if number:
                together[one.name].append(seconds)
                alone[one.name] += singles
            words[one.name] = written
    say("memory")
    return [_speed(one, together[one.name], alone[one.name], len(texts), words[one.name], beam) for one in contestants]


def _all(generator: Generator, texts: list[str], beam: int | None, batch_size: int | None) -> tuple[float, int]:
    began = time.perf_counter()
    answers = generator.generate(texts, beam=beam, batch_size=batch_size, log_probs=False, weights=False)
    return time.perf_counter() - began, sum(len(answer.text.split()) for answer in answers)


def _speed(
    one: Contestant, together: list[float], alone: list[float], texts: int, words: int, beam: int | None
) -> Speed:
    seconds, singles = statistics.median(together), sorted(alone)
    return Speed(
        name=one.name,
        engine=one.generator.engine.name,
        sentences=texts / seconds,
        words=words / seconds,
        single=len(singles) / sum(singles),
        p50=1000 * statistics.median(singles),
        p95=1000 * singles[math.ceil(0.95 * len(singles)) - 1],
        memory=peak_memory(one.path, one.int8, beam),
    )


def peak_memory(path: str, int8: bool, beam: int | None) -> float:
    """MB that a process of its own needs to load a model and answer a batch."""
    command = [sys.executable, "-m", "antiphon.evaluation.footprint", path, str(int(int8)), str(beam or 0)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (our own module)
    return float(found.stdout) if found.returncode == 0 else float("nan")
