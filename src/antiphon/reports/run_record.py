"""Read the files of a run folder for the report and the card. What is missing or broken is left out."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.files import read_rows

__all__ = ["RunRecord", "SampleOutput", "read_record"]


@dataclass(frozen=True)
class SampleOutput:
    """The output for one source at one update of the training."""

    update: int
    source: str
    references: tuple[str, ...]
    output: str

    @property
    def correct(self) -> bool | None:
        """None without references: a language model continues a text freely."""
        return self.output in self.references if self.references else None


@dataclass(frozen=True)
class Change:
    """Keys of the configuration that were changed when the run was extended."""

    update: int
    keys: str


@dataclass(frozen=True)
class RunRecord:
    """The content of the files of a run; a missing one is empty."""

    run: Path
    config: str = ""
    command: str = ""
    environment: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, float]] = field(default_factory=list)
    samples: list[SampleOutput] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    @property
    def learnt(self) -> bool:
        """False if the run has ended no better than the frequencies of the output tokens."""
        return self.summary.get("learnt") is not False

    @property
    def problem(self) -> list[str]:
        """The problem of a run that has learnt nothing, and what to try; empty for all others."""
        advice = self.summary.get("advice")
        remedies = [str(remedy) for remedy in advice] if isinstance(advice, list) else []
        problem = str(self.summary.get("problem", ""))
        return [] if self.learnt else [f"{problem[:1].upper()}{problem[1:]}.", *(f"Try {one}." for one in remedies)]

    @property
    def name(self) -> str:
        return self.run.resolve().name

    @property
    def metric(self) -> str:
        return str(self.summary.get("metric") or "loss")

    def best(self) -> dict[str, float] | None:
        """The evaluation whose weights were chosen: the one named in the summary, else the last one marked as best."""
        named = [row for row in self.metrics if row.get("update") == self.summary.get("best_update")]
        marked = [row for row in self.metrics if row.get("best") == 1.0]
        candidates = named or marked
        return candidates[-1] if candidates else None

    def best_value(self) -> float | None:
        """The best value of the metric that chose the weights."""
        value = self.summary.get("best_value")
        if isinstance(value, int | float):
            return float(value)
        return (self.best() or {}).get("dev_loss" if self.metric == "loss" else self.metric)


def read_record(run: Path) -> RunRecord:
    """Read whatever can be read; never raises."""
    return RunRecord(
        run=run,
        config=_text(run / "config.yaml"),
        command=_text(run / "command.txt").strip(),
        environment=_mapping(run / "environment.json"),
        data=_mapping(run / "data.json"),
        summary=_mapping(run / "summary.json"),
        metrics=_numbers(run / "metrics.csv"),
        samples=_samples(run / "samples.jsonl"),
        changes=_changes(run / "changes.jsonl"),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _mapping(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text(path))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _numbers(path: Path) -> list[dict[str, float]]:
    """The rows of a CSV, without empty or unreadable cells and without rows that have no update."""
    rows = []
    for cells in csv.DictReader(_text(path).split("\n"), quoting=csv.QUOTE_NONE):
        row = {name: number for name, cell in cells.items() if name and (number := _number(cell)) is not None}
        if math.isfinite(row.get("update", math.nan)):
            rows.append(row)
    return rows


def _number(cell: object) -> float | None:
    try:
        return float(str(cell))
    except ValueError:
        return None


def _samples(path: Path) -> list[SampleOutput]:
    samples = []
    for value in read_rows(path):
        if {"update", "source", "output"} <= value.keys():
            references = value.get("references")
            texts = tuple(str(text) for text in references) if isinstance(references, list) else ()
            update = value["update"] if isinstance(value["update"], int) else 0
            samples.append(SampleOutput(update, str(value["source"]), texts, str(value["output"])))
    return samples


def _changes(path: Path) -> list[Change]:
    return [
        Change(row["update"], ", ".join(map(str, row["changes"])))
        for row in read_rows(path)
        if isinstance(row.get("update"), int) and isinstance(row.get("changes"), list)
    ]
