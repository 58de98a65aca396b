"""A small run that covers what a resume must remember, and processes to train and to kill it in."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Dropout, accumulation, two epochs, a schedule, a metric of real decoding, averaging, checkpoints in between.
CONFIG = """\
data: {train: train.tsv, dev: dev.tsv}
model:
  encoder: {kind: gru, embedding: 8, size: 12, layers: 2, dropout: 0.2}
  decoder: {kind: bahdanau, cell: gru, embedding: 8, size: 12, dropout: 0.2}
training:
  {epochs: 2, batch_tokens: 64, accumulate: 2, learning_rate: 0.02, schedule: {kind: cosine, warmup: 3}, metric: cer,
   evaluate_every: 5, checkpoint_every: 3, average: 2, bad_updates: 3, seed: 3, threads: 1}
decoding: {max_length: 12}
evaluation: {metrics: [exact_match]}
"""
# Passive: two threads on busy cores would burn their time waiting for one another.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "PYTHONIOENCODING": "utf-8"}


@dataclass(frozen=True)
class Ended:
    """The result of a process: its exit code (negative: the signal that killed it) and its output."""

    code: int
    said: str
    passed: int | None = None  # how often the place of the fault was passed


@dataclass
class ForkServer:
    """Orders to the server of fork_server.py, one after the other."""

    folder: Path
    server: subprocess.Popen[str]
    orders: int = field(default=0)

    def start(
        self,
        run: Path,
        *arguments: str,
        fault: tuple[str, int, str] | None = None,
        spoilt: tuple[int, int] | None = None,
        pictures: bool = False,
        second: str | None = None,
    ) -> int:
        """Starts `antiphon train config.yaml --out RUN ARGUMENTS`; returns its process id.

        A `second` signal comes when the pictures are drawn.
        """
        self.orders += 1
        order = {
            "folder": str(self.folder),
            "arguments": ["train", "config.yaml", "--out", str(run), *arguments],
            "run": str(run),
            "log": str(self.log),
            "fault": dict(zip(("where", "number", "action"), fault, strict=True)) if fault else None,
            "spoilt": spoilt,
            "pictures": pictures or second is not None,
            "second": second,
        }
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        return int(self._answer())

    def wait(self) -> Ended:
        code = int(self._answer())
        passed = Path(f"{self.log}.passed")
        return Ended(code, self.log.read_text("utf-8"), int(passed.read_text()) if passed.exists() else None)

    def train(self, run: Path, *arguments: str, **options: Any) -> Ended:  # noqa: ANN401 - those of start
        self.start(run, *arguments, **options)
        return self.wait()

    def train_and_kill(self, run: Path, seconds: float) -> Ended:
        """SIGKILL after so many seconds, if it has not ended by then."""
        process = self.start(run)  # the server reaps it, and no other process of the session takes its number so soon
        timer = threading.Timer(seconds, _kill, [process])
        timer.start()
        ended = self.wait()
        timer.cancel()
        timer.join()
        return ended

    @property
    def log(self) -> Path:
        return self.folder / f"said.{self.orders}"

    def _answer(self) -> str:
        assert self.server.stdout is not None
        answer = self.server.stdout.readline()
        assert answer, "the server of fork_server.py has died"
        return answer


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        os.kill(process, signal.SIGKILL)


@dataclass(frozen=True)
class Baseline:
    """A run that nobody disturbed."""

    run: Path
    seconds: float
    disk_operations: int
    said: str

    @property
    def weights(self) -> bytes:
        return (self.run / "model.safetensors").read_bytes()

    def assert_same_end(self, run: Path) -> None:
        """The same bytes, in the model folder and in every checkpoint that is left."""
        assert (run / "model.safetensors").read_bytes() == self.weights
        assert checkpoints(run) == checkpoints(self.run)
        for name in checkpoints(run):
            for file in ("model.safetensors", "optimizer.safetensors"):
                here, there = (folder / "checkpoints" / name / file for folder in (run, self.run))
                assert here.read_bytes() == there.read_bytes(), f"checkpoint {name}: {file}"


def checkpoints(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def write_data(folder: Path) -> None:
    draw = random.Random(7)
    words = sorted({"".join(draw.choices("abcdef", k=draw.randint(1, 4))) for _ in range(400)})
    draw.shuffle(words)
    lines = [f"{word}\t{word[::-1]}\n" for word in words]
    (folder / "dev.tsv").write_text("".join(lines[:30]))
    (folder / "train.tsv").write_text("".join(lines[30:210]))
    (folder / "config.yaml").write_text(CONFIG)
