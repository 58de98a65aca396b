"""The files of a run, beside its weights."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import platform
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from antiphon import __version__
from antiphon.errors import RunError
from antiphon.files import disk_errors, to_json, write_text

__all__ = ["RunFolder"]


class RunFolder:
    """RUN/: what is written, where, and how a resumed run goes on with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.attention = path / "attention"
        self.config = path / "config.yaml"
        self.log = path / "log.jsonl"
        self.samples = path / "samples.jsonl"
        self.metrics = path / "metrics.csv"
        self.summary = path / "summary.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process may write a run."""
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            handle = (self.path / ".lock").open("w")
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RunError(f"{self.path}: another process is training here; wait for it or use --out") from error
            yield

    def write_facts(self, data: dict[str, Any]) -> None:
        """Who, where, with what."""
        write_text(self.path / "command.txt", shlex.join(sys.argv) + "\n")
        write_text(self.path / "environment.json", to_json(environment()))
        write_text(self.path / "data.json", to_json(data))

    def append(self, path: Path, rows: list[dict[str, Any]]) -> None:
        """Lines of JSON at the end of a file."""
        with disk_errors(path), path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    def rewind(self, *, update: int, evaluated: int) -> None:
        """Drops the lines that a killed process wrote after its last checkpoint and its last evaluation."""
        for path, last in ((self.log, update), (self.samples, evaluated)):
            if path.exists():
                rows = [line for line in path.read_text("utf-8").split("\n") if _update(line) <= last]
                write_text(path, "".join(line + "\n" for line in rows))

    def write_metrics(self, history: list[dict[str, float]], best: int | None) -> None:
        """metrics.csv, one row an evaluation."""
        if not history:
            return
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, [*history[0], "best"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "best": int(row["update"] == best)} for row in history)
        write_text(self.metrics, buffer.getvalue())

    def write_summary(self, summary: dict[str, Any]) -> None:
        write_text(self.summary, to_json(summary))


def _update(line: str) -> float:
    """The update a line speaks of; a torn line speaks of none."""
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def environment() -> dict[str, Any]:
    packages = ("torch", "numpy", "tokenizers", "safetensors", "pydantic", "sacrebleu", "rapidfuzz")
    return {
        "antiphon": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").split("\n")
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
