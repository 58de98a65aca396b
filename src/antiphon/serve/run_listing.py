"""The runs below a folder: found by their files, read for the page, never written. Names come from here alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.config.load import read_config
from antiphon.config.yaml_text import config_diff
from antiphon.errors import UserError
from antiphon.reports.run_record import RunRecord, SampleOutput, read_record
from antiphon.serve.frames import Message
from antiphon.serve.refusals import Refusal

__all__ = ["RunListing", "is_model", "weights_signature"]

DEEPEST, MOST_RUNS = 3, 500  # of the folders below, and of the runs that are listed
SHOWN_FILES = (".yaml", ".json", ".jsonl", ".csv", ".txt")
FRESH = 1.0  # seconds that a listing is used again
MOST_BYTES = 2**18  # of a log in one response
SAMPLES, SPARKS = 30, 40  # the last outputs of a run, and the points of its curve in the list
SHOWN = ("update", "epoch", "loss", "learning_rate", "tokens_per_second", "seconds")


def is_model(folder: Path) -> bool:
    """A run, a model folder or an export, also one that cannot be loaded."""
    return any((folder / name).is_file() for name in ("model.json", "export.json", "config.yaml"))


def weights_signature(folder: Path) -> tuple[int, int]:
    """Changes whenever a training writes better weights."""
    try:
        found = (folder / "model.safetensors").stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


@dataclass
class RunListing:
    """The runs below some folders."""

    folders: tuple[Path, ...]
    _found: dict[str, Path] = field(default_factory=dict)
    _looked: float = -FRESH

    def paths(self) -> dict[str, Path]:
        """The folder of each run by its name, which is its path below the folder that was given."""
        if time.monotonic() - self._looked >= FRESH:
            several = len(self.folders) > 1
            runs = ((root, run) for root in self.folders for run in _runs_below(root))
            named = ((f"{root.resolve().name}/" if several else "", root, run) for root, run in runs)
            self._found = {f"{start}{run.relative_to(root).as_posix()}": run for start, root, run in named}
            self._looked = time.monotonic()
        return self._found

    def path(self, name: str) -> Path:
        """The folder of a run; Refusal if it is none of the listing."""
        found = self.paths().get(name)
        if found is None:
            raise Refusal(404, "unknown_run", f"run: there is no {name[:100]!r}; /v1/runs lists them", param="run")
        return found

    def rows(self) -> list[Message]:
        """A row for each run, those in training first, then the latest."""
        rows = [run_row(name, path) for name, path in self.paths().items()]
        return sorted(rows, key=lambda row: (row["state"] != "training", row["age"]))

    def facts(self, name: str) -> Message:
        """Return the facts of a run: its configuration, data, samples and changes."""
        record = read_record(self.path(name))
        files = _reads_files(record.run)
        return {
            **run_row(name, record.run),
            "config": _without_paths(record.config),
            "versions": {key: record.environment.get(key) for key in ("antiphon", "python", "torch", "cpu")},
            "data": {key: record.data.get(key) for key in ("pairs", "lengths")},
            "evaluations": record.metrics,
            "samples": [_sample(one, files) for one in record.samples[-SAMPLES:]],
            "changes": [{"update": change.update, "keys": change.keys} for change in record.changes],
        }

    def log(self, name: str, after: int) -> Message:
        """The rows of a training's log behind the first `after` bytes, a bounded part of it at a time.

        A log that has become shorter, because a training was resumed or begun again, is read from its start.
        """
        path = self.path(name)
        record = read_record(path)
        content, after = _bytes_after(path / "log.jsonl", after)
        end = content.rfind(b"\n") + 1
        rows = [row for line in content[:end].split(b"\n") if (row := _row(line))]
        return {
            "rows": [{key: row[key] for key in SHOWN if key in row} for row in rows],
            "next": after + end,
            "more": len(content) == MOST_BYTES,
            "evaluations": record.metrics,
            "state": _state(path, record),
        }

    def differences(self, one: str, other: str) -> list[Message]:
        """The keys in which the configurations of two runs differ."""
        try:
            configs = [read_config(str(self.path(name) / "config.yaml")) for name in (one, other)]
        except UserError as error:
            raise Refusal(422, "unreadable_run", error.problems) from error
        rows = config_diff(*configs)
        return [{"key": key, "one": _short(old), "other": _short(new)} for key, old, new in rows]


def _runs_below(root: Path) -> Iterator[Path]:
    """The folders with a run, not deeper than three; a link that leads elsewhere is not followed."""
    found = 0
    for place, folders, files in os.walk(root):
        here = Path(place)
        depth = len(here.relative_to(root).parts)
        if here != root and "config.yaml" in files and not {"log.jsonl", "model.json"}.isdisjoint(files):
            if _stays_inside(root, here):
                yield here
            found += 1
            folders.clear()
        if depth >= DEEPEST or found >= MOST_RUNS:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def _stays_inside(root: Path, run: Path) -> bool:
    """False if a file that a page could show is a link to somewhere else; weights may lie on another disk."""
    inside = root.resolve()
    links = [path for path in run.iterdir() if path.suffix in SHOWN_FILES and path.is_symlink()]
    return all(path.resolve().is_relative_to(inside) for path in links)


def run_row(name: str, path: Path) -> Message:
    """The row of a run in the list."""
    record = read_record(path)
    metric = record.metric if record.summary else _metric(record)
    curve = [row["dev_loss" if metric == "loss" else metric] for row in record.metrics if metric in {*row, "loss"}]
    best = record.best() or {}
    log = path / "log.jsonl"
    return {
        "name": name,
        "state": _state(path, record),
        "ending": str(record.summary.get("stopped", "")),
        "update": int(_last_update(record)),
        "metric": metric,
        "best": record.best_value() if record.summary else best.get("dev_loss" if metric == "loss" else metric),
        "best_update": int(best["update"]) if best else None,
        "seconds": record.summary.get("seconds") or (record.metrics[-1].get("seconds") if record.metrics else None),
        "parameters": record.summary.get("parameters"),
        "age": max(0.0, time.time() - (log if log.exists() else path).stat().st_mtime),  # by the file's clock
        "usable": (path / "model.json").is_file(),
        "curve": curve[:: max(1, -(-len(curve) // SPARKS))],
    }


def _metric(record: RunRecord) -> str:
    """The metric of a run that has no summary yet: the last column that is none of the fixed ones."""
    fixed = {"train_loss", "dev_loss", "perplexity", "padding", "best", *SHOWN}
    named = [name for row in record.metrics[-1:] for name in row if name not in fixed]
    return named[0] if named else "loss"


def _last_update(record: RunRecord) -> float:
    updates = [row["update"] for row in record.metrics[-1:]]
    return max([record.summary.get("updates") or 0, *updates])


def _state(path: Path, record: RunRecord) -> str:
    if is_locked(path / ".lock"):
        return "training"
    stopped = str(record.summary.get("stopped", ""))
    if not stopped or stopped == "interrupted":
        return "stopped"
    return "failed" if stopped == "diverged" or not record.learnt else "finished"


def is_locked(path: Path) -> bool:
    """A process holds the lock of a run; it is looked up, for trying to take it could make a training fail."""
    try:
        found = path.stat(follow_symlinks=False)
        locks = Path("/proc/locks").read_text("utf-8").splitlines()
    except OSError:
        return False
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return any(file in line.split() for line in locks)


def _bytes_after(path: Path, after: int) -> tuple[bytes, int]:
    """A part of a file, and where it begins."""
    try:
        with path.open("rb") as file:
            after = file.seek(after if after <= path.stat().st_size else 0)
            return file.read(MOST_BYTES), after
    except OSError:
        return b"", 0


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _sample(one: SampleOutput, files: list[bool]) -> Message:
    """An output of a training; in place of the path of a file its name."""
    cells = zip(one.source.split("\t"), files or [True], strict=False)
    source = "\t".join(cell.rpartition("/")[2] if file else cell for cell, file in cells)
    return {"update": one.update, "source": source, "references": list(one.references), "output": one.output}


def _reads_files(run: Path) -> list[bool]:
    """True for each source of a run that is a file; a configuration that cannot be read may have any."""
    try:
        return [source.kind != "text" for source in read_config(str(run / "config.yaml")).data.sources] or [False]
    except UserError:
        return []


def _short(value: str) -> str:
    """A path without its folders, which are the server's own."""
    bare = value.strip("\"'")
    return bare.rpartition("/")[2] if "/" in bare and " " not in bare else value


def _without_paths(config: str) -> str:
    """The YAML of a configuration with the names of files instead of their paths, and without comments."""
    lines = [line.partition("  #")[0].rstrip() for line in config.split("\n")]
    kept = [line for line in lines if line and not line.lstrip().startswith("#")]
    return "\n".join(": ".join([key, _short(value)]) if value else key for key, _, value in map(_split, kept))


def _split(line: str) -> tuple[str, str, str]:
    return line.partition(": ")
