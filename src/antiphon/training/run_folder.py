"""The run folder: its files, its lock, and the checks before a run starts or resumes in it."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from antiphon._version import __version__
from antiphon.config.schema import Config, DataConfig
from antiphon.config.yaml_text import ChangedKey, config_diff
from antiphon.data.build_source import load_source, load_tokenizer
from antiphon.data.prepare import Prepared
from antiphon.data.source import Source
from antiphon.errors import ModelFolderError, RunError
from antiphon.files import discard, disk_errors, read_rows, sweep, to_json, write_text
from antiphon.model_folder import MANIFEST, SOURCE_TOKENIZER, TARGET_TOKENIZER, read_folder_config
from antiphon.training.numerics import cpu_name, numerical_environment

__all__ = ["RunFolder", "allowed_changes", "has_same_config", "refuse_changed_data", "refuse_foreign_folder"]

# Resume checks: every reason not to train in a folder, with its remedy.

REMEDY = "train into another folder with --out, or start over here with --fresh"

CHANGEABLE = re.compile(
    r"training\.(epochs|max_updates|max_minutes|patience|min_updates|evaluate_every|checkpoint_every|keep|threads|track)"
    r"|evaluation\..+|decoding\..+|data\.turns"
)
"""Keys that alter no past update, and may change in a run that has begun. With `dev_examples` or `metric` changed,
evaluations before and after could not be compared."""


def has_same_config(folder: RunFolder, config: Config) -> bool:
    """True if the folder has a config.yaml that means this configuration."""
    try:
        return not config_diff(read_folder_config(folder.path), config)
    except ModelFolderError:
        return False


def refuse_foreign_folder(folder: RunFolder, config: Config) -> None:
    """Raise RunError if others wrote what a run would overwrite; a config.yaml from `antiphon init` is no obstacle."""
    existing = [path for path in (folder.checkpoints, *(folder.path / name for name in FILES)) if path.exists()]
    if folder.config in existing and has_same_config(folder, config):
        existing.remove(folder.config)
    if existing and not folder.is_antiphon_folder:
        names = ", ".join(path.name for path in existing)
        raise RunError(f"{folder.path}: has {names} but is not a run of Antiphon; choose another --out")


def allowed_changes(folder: RunFolder, config: Config) -> list[ChangedKey]:
    """The keys that differ from the run in the folder; RunError if one of them alters past updates."""
    if not folder.config.exists():
        if folder.checkpoints.exists():
            raise RunError(f"{folder.path}: has checkpoints but no config.yaml, so their run is unknown; {REMEDY}")
        return []
    try:
        differences = config_diff(read_folder_config(folder.path), config)
    except ModelFolderError as error:
        raise RunError([*error.problems, f"put the config.yaml of the run back, {REMEDY}"]) from error
    allowed = [change for change in differences if CHANGEABLE.fullmatch(change.key)]
    if len(allowed) == len(differences):
        return allowed
    fact = f"{folder.path}: holds a run of another configuration:"
    names = ", ".join(change.key for change in allowed)
    remedy = f"of these only {names} may change in a run that has begun; {REMEDY}" if allowed else REMEDY
    raise RunError([fact, *(f"  {key}: {old} in the run, {new} now" for key, old, new in differences), remedy])


def refuse_changed_data(folder: RunFolder, data: DataConfig, prepared: Prepared) -> None:
    """Raise RunError if the data or the vocabularies are not those that the run began with."""
    changed = folder.changed_data(prepared.facts)
    if changed:
        facts = [f"{path}: has changed since the run in {folder.path} began" for path in changed]
        raise RunError([*facts, f"put the old data back, {REMEDY}"])
    sides: tuple[tuple[str, Source], ...] = (
        (SOURCE_TOKENIZER, prepared.source),
        (TARGET_TOKENIZER, prepared.target_tokenizer),
    )
    for name, tokenizer in sides:
        path = folder.path / name
        try:
            before = load_source(path, data) if name == SOURCE_TOKENIZER else load_tokenizer(path)
        except ModelFolderError:
            continue  # missing or damaged: nothing to compare with, and it will be written again
        if before.fingerprint != tokenizer.fingerprint:
            raise RunError(
                f"{path}: the data now gives other tokens than when the run began, so its weights do not fit them; "
                f"use the package versions in environment.json, {REMEDY}"
            )


# In the order in which they are deleted: by the last two a folder is recognised as a run.
FILES = (
    "command.txt",
    "data.json",
    "log.jsonl",
    "samples.jsonl",
    "metrics.csv",
    "changes.jsonl",
    "summary.json",
    "results.png",
    "card.md",
    "report.html",
    "joint.safetensors",
    "shortlist.safetensors",
    "registered.json",
    "flags.json",
    "model.safetensors",
    "tokenizer.source.json",
    "tokenizer.target.json",
    "config.yaml",
    "model.json",
    "environment.json",
)


class RunFolder:
    """The paths of a run folder, and how its files are written and resumed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.attention = path / "attention"
        self.track = path / "track"
        self.config = path / "config.yaml"
        self.environment = path / "environment.json"
        self.data = path / "data.json"
        self.log = path / "log.jsonl"
        self.samples = path / "samples.jsonl"
        self.metrics = path / "metrics.csv"
        self.changes = path / "changes.jsonl"
        self.summary = path / "summary.json"
        self.report = path / "report.html"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run folder for this process alone; RunError if another one trains in it."""
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            handle = (self.path / ".lock").open("w")
        with handle:
            with disk_errors(self.path):
                try:
                    _lock(handle)
                except BlockingIOError as error:
                    fact = f"{self.path}: another process is training here"
                    raise RunError(f"{fact}; wait for it or train into another folder with --out") from error
            sweep(self.path)
            yield

    @property
    def is_antiphon_folder(self) -> bool:
        """True for a run or a model of Antiphon; files of other folders are never deleted."""
        return "antiphon" in _mapping(self.environment) or {"format", "files"} <= _mapping(self.path / MANIFEST).keys()

    def write_facts(self, data: dict[str, Any]) -> None:
        """Write environment, command line and data facts. The environment goes first: it marks the folder as ours."""
        write_text(self.environment, to_json(environment()))
        # An argument that is not UTF-8 comes with surrogates, which no file can hold.
        command = shlex.join(sys.argv).encode("utf-8", "backslashreplace").decode("utf-8")
        write_text(self.path / "command.txt", command + "\n")
        write_text(self.data, to_json(data))

    def record_changes(self, update: int, changes: list[ChangedKey]) -> None:
        """Add a line to changes.jsonl; none if a killed process has already added it."""
        rows, changed = read_rows(self.changes), [str(change) for change in changes]
        if rows and (rows[-1].get("update"), rows[-1].get("changes")) == (update, changed):
            return
        rows.append({"update": update, "time": datetime.now(UTC).isoformat(timespec="seconds"), "changes": changed})
        write_text(self.changes, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    @property
    def outcome(self) -> dict[str, Any]:
        """The content of summary.json; empty if there is none."""
        return _mapping(self.summary)

    def append(self, path: Path, rows: list[dict[str, Any]]) -> None:
        """Append lines of JSON to a file."""
        with disk_errors(path), path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    def start_over(self, *, keep_config: bool) -> None:
        """Delete what a run wrote, and nothing else.

        The config may be the file that the user trains with: `keep_config` if it means the new configuration.
        """
        if not self.is_antiphon_folder:
            return
        for folder in (self.checkpoints, self.attention, self.track):
            if folder.is_dir():
                discard(folder)
        for name in FILES:
            if keep_config and name == self.config.name:
                continue
            with disk_errors(self.path / name):
                (self.path / name).unlink(missing_ok=True)

    def changed_data(self, data: dict[str, Any]) -> list[str]:
        """The data files whose contents have changed since the run began."""
        try:
            before = _contents(json.loads(self.data.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError):
            return []  # not yet written, or damaged: nothing to compare with
        now = _contents(data)
        return sorted({path for part, path in now if before.get((part, path)) != now[part, path]})

    def rewind(self, *, update: int, history: list[dict[str, float]], best: int | None) -> None:
        """Drop what a killed process wrote after its last checkpoint."""
        evaluated = int(history[-1]["update"]) if history else 0
        for path, last in ((self.log, update), (self.samples, evaluated)):
            if path.exists():
                lines = path.read_text("utf-8", "replace").split("\n")
                write_text(path, "".join(line + "\n" for line in lines if _update(line) <= last))
        self.write_metrics(history, best)

    def write_metrics(self, history: list[dict[str, float]], best: int | None) -> None:
        """Write metrics.csv, one row an evaluation."""
        if not history:
            self.metrics.unlink(missing_ok=True)
            return
        buffer = io.StringIO()
        columns = dict.fromkeys(name for row in history for name in row)  # evaluation.metrics may have changed
        writer = csv.DictWriter(buffer, [*columns, "best"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "best": int(row["update"] == best)} for row in history)
        write_text(self.metrics, buffer.getvalue())


def _lock(file: IO[str]) -> None:
    """Lock a file until it is closed; BlockingIOError if another process holds it. Windows has no `fcntl`: no lock."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _contents(data: dict[str, Any]) -> dict[tuple[str, str], str]:
    """(train or dev, path) → SHA-256 of the file; all files that a table names count as one."""
    read = data.get("read", {})
    named = {(part, f"the files of {part}"): read[part] for part in ("train", "dev") if part in read}
    return {(file["part"], file["path"]): file["sha256"] for file in data["files"]} | named


def _mapping(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if there is none."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _update(line: str) -> float:
    """The update of a log line; infinity for a torn line."""
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
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        **numerical_environment(),
    }
