"""Compare how fast models decode on this machine.

Each model has a worker process of its own: `python -m antiphon.evaluation.bench MODEL`. In one process they would
disturb each other: once torch has used its threads, those of CTranslate2 are several times slower.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Unpack

from antiphon.errors import UserError
from antiphon.inference.options import SearchKeywords
from antiphon.model_folder import load

__all__ = ["BenchModel", "BenchWorker", "Decode", "Measurements", "Speed", "Task", "compare", "measure", "serve"]

RU_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes
SINGLES = 50  # texts that are decoded one by one

Decode = Callable[[list[str], int | None, int | None], list[str]]
"""Texts, beam, batch size → outputs. None: the model's default."""


@dataclass(frozen=True)
class Task:
    """Decode all texts in batches, or some of them one by one."""

    beam: int | None = None
    batch_size: int | None = None
    single: bool = False


@dataclass(frozen=True)
class BenchModel:
    """A model to measure: its name and the command line of its worker."""

    name: str
    command: list[str]

    @classmethod
    def of_model(cls, path: str, options: SearchKeywords) -> BenchModel:
        return cls(path, [sys.executable, "-m", "antiphon.evaluation.bench", path, json.dumps(options)])


@dataclass
class Measurements:
    """The seconds of a model by task and round, its last outputs, and the peak memory of its process in MB."""

    name: str
    engine: str
    seconds: dict[Task, list[list[float]]] = field(default_factory=dict)  # a round: of each text, or of all together
    outputs: dict[Task, list[str]] = field(default_factory=dict)
    memory: float = 0.0

    def rate(self, task: Task) -> float:
        """Texts a second: the median over the rounds."""
        return len(self.outputs[task]) / statistics.median(map(sum, self.seconds[task]))

    def latency(self, task: Task, share: float) -> float:
        """The milliseconds within which this share of the texts was answered, of a task that decodes one by one."""
        ordered = sorted(time for times in self.seconds[task] for time in times)
        return 1000 * ordered[math.ceil(share * len(ordered)) - 1]


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


def compare(
    models: list[str],
    texts: list[str],
    *,
    rounds: int,
    log: Callable[[str], None] = lambda _: None,
    **options: Unpack[SearchKeywords],
) -> list[Speed]:
    """The speed of model folders and exports with these options of a search, in batches and one by one."""
    beam = options.get("beam")
    batch, single = Task(beam, options.get("batch_size")), Task(beam, 1, single=True)
    candidates = [BenchModel.of_model(model, options) for model in models]
    measured = measure(candidates, texts, [batch, single], rounds=rounds, log=log)
    return [_speed(found, batch, single) for found in measured]


def _speed(measured: Measurements, batch: Task, single: Task) -> Speed:
    seconds = statistics.median(map(sum, measured.seconds[batch]))
    return Speed(
        name=measured.name,
        engine=measured.engine,
        sentences=measured.rate(batch),
        words=sum(len(output.split()) for output in measured.outputs[batch]) / seconds,
        single=measured.rate(single),
        p50=measured.latency(single, 0.5),
        p95=measured.latency(single, 0.95),
        memory=measured.memory,
    )


def measure(
    candidates: list[BenchModel],
    texts: list[str],
    tasks: list[Task],
    *,
    rounds: int,
    singles: int = SINGLES,
    pause: float = 0.0,
    log: Callable[[str], None] = lambda _: None,
) -> list[Measurements]:
    """Let the candidates decode in turn, one at a time, round after round; the first round is a warm-up.

    In a `pause` (seconds) before each task the threads of the previous candidate fall asleep.
    """
    if not texts:
        raise UserError("no texts to decode; give a file with at least one line")
    workers = [BenchWorker(candidate) for candidate in candidates]
    try:
        measured = [
            Measurements(worker.candidate.name, worker.ask({"texts": texts, "singles": singles})["engine"])
            for worker in workers
        ]
        for number in range(rounds + 1):
            log("warming up" if number == 0 else f"round {number} of {rounds}")
            for task in tasks:
                for worker, found in zip(workers, measured, strict=True):
                    time.sleep(pause)
                    answer = worker.ask(asdict(task))
                    if number > 0:
                        found.seconds.setdefault(task, []).append(answer["seconds"])
                    found.outputs[task], found.memory = answer["outputs"], answer["memory"]
        return measured
    finally:
        for worker in workers:
            worker.close()


class BenchWorker:
    """The process of a candidate, which answers a line of JSON with another."""

    def __init__(self, candidate: BenchModel) -> None:
        self.candidate = candidate
        self.process = subprocess.Popen(  # noqa: S603 (our own module)
            candidate.command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(json.dumps(message), file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            command = shlex.join(self.candidate.command)
            raise UserError(f"{self.candidate.name}: its process has died; run it to see why: {command} < /dev/null")
        return dict(json.loads(answer))

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


# The worker.


def serve(engine: str, decode: Decode) -> None:
    """Read texts and then tasks from stdin, a JSON object a line; answer each on stdout."""
    if not (line := sys.stdin.readline()):
        return
    order = json.loads(line)
    texts, singles = order["texts"], order["singles"]
    few = texts[:: max(1, len(texts) // singles)][:singles]
    print(json.dumps({"engine": engine}), flush=True)
    for line in sys.stdin:
        task = Task(**json.loads(line))
        seconds, outputs = [], []
        for batch in [[text] for text in few] if task.single else [texts]:
            began = time.perf_counter()
            outputs += decode(batch, task.beam, task.batch_size)
            seconds.append(time.perf_counter() - began)
        print(json.dumps({"seconds": seconds, "outputs": outputs, "memory": _peak_memory()}), flush=True)


def _peak_memory() -> float:
    """MB. On Linux ru_maxrss includes the memory of the parent before this program began, but VmHWM does not."""
    status = Path("/proc/self/status")
    if status.exists():
        [kilobytes] = re.findall(r"^VmHWM:\s+(\d+) kB", status.read_text("ascii"), flags=re.MULTILINE)
        return float(kilobytes) * 1024 / 1e6
    try:
        import resource
    except ImportError:  # Windows
        return math.nan
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RU_MAXRSS_UNIT / 1e6


def _run_model_worker(path: str, options: SearchKeywords) -> None:
    generator = load(path)

    def decode(texts: list[str], beam: int | None, batch_size: int | None) -> list[str]:
        chosen: SearchKeywords = {**options, "beam": beam, "batch_size": batch_size, "log_probs": False}
        answers = generator.generate(texts, weights=False, **chosen)
        return [answer.text for answer in answers]

    serve(generator.engine.name, decode)


if __name__ == "__main__":
    _run_model_worker(sys.argv[1], json.loads(sys.argv[2]))
