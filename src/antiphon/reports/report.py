"""RUN/report.html: the whole run in one file that needs no network and no script."""

from __future__ import annotations

import base64
import math
import re
from dataclasses import dataclass
from pathlib import Path

from jinja2.filters import do_filesizeformat

from antiphon._version import __version__
from antiphon.files import write_text
from antiphon.plots.style import metric_label
from antiphon.reports.render import is_number, render
from antiphon.reports.run_record import RunRecord, SampleOutput, read_record
from antiphon.text import duration, natural_order

__all__ = ["write_report"]

_PICTURES = 12  # attention pictures inside the file; the newest
_SOURCES = 30  # sources whose answers are shown


@dataclass(frozen=True)
class Table:
    """Rows under a head; row `best` is highlighted."""

    head: list[str]
    rows: list[list[object]]
    best: int | None = None

    @property
    def column_kinds(self) -> list[str]:
        """`number` for a column that holds only numbers and empty cells, else `text`."""
        columns = zip(*self.rows, strict=True)
        return ["number" if all(cell == "" or is_number(cell) for cell in column) else "text" for column in columns]


@dataclass(frozen=True)
class Picture:
    """A PNG to be put inside the page, in base64."""

    name: str
    data: str


def write_report(run: Path) -> None:
    """Read the run folder and write its report.html; what is missing is left out."""
    record = read_record(run)
    values = {
        "record": record,
        "version": __version__,
        "tiles": _tiles(record),
        "curves": _picture(run / "results.png", "results"),
        "histories": _histories(record.samples),
        "shown_sources": _SOURCES,
        "evaluations": _evaluations(record),
        "config": _split_comments(record.config),
        "environment": _facts(record.environment),
        "files": _files(run),
        "is_tagger": re.search(r"^  kind: tagger\b", record.config, re.MULTILINE) is not None,
    }
    write_text(run / "report.html", render("report.html.j2", values | _attention(run) | _data(record)))


def _tiles(record: RunRecord) -> dict[str, object]:
    """The key figures of a run by name."""
    summary = record.summary
    epochs, seconds = summary.get("epochs"), summary.get("seconds")
    tiles = {
        f"dev {metric_label(record.metric)}": record.best_value(),
        "parameters": summary.get("parameters"),
        "updates": summary.get("updates"),
        "epochs": f"{epochs:.1f}" if is_number(epochs) else None,
        "training time": duration(seconds) if is_number(seconds) else None,
    }
    return {name: value for name, value in tiles.items() if value is not None}


def _histories(samples: list[SampleOutput]) -> list[list[SampleOutput]]:
    """The answers to each source or prompt, in the order of training."""
    by_source: dict[str, list[SampleOutput]] = {}
    for sample in sorted(samples, key=lambda sample: sample.update):
        by_source.setdefault(sample.source, []).append(sample)
    return list(by_source.values())


def _attention(run: Path) -> dict[str, object]:
    """The newest pictures; those with a panel for each head need the whole width, so they are apart."""
    paths = sorted((run / "attention").glob("*.png"), key=lambda path: natural_order(path.stem))
    pictures = [picture for path in paths[-_PICTURES:] if (picture := _picture(path, f"attention/{path.name}"))]
    heads = [picture for picture in pictures if picture.name.endswith("-heads.png")]
    matrices = [picture for picture in pictures if picture not in heads]
    return {"attention": matrices, "heads": heads, "older_pictures": max(0, len(paths) - _PICTURES)}


def _picture(path: Path, name: str) -> Picture | None:
    """None if the file cannot be read."""
    try:
        return Picture(name, base64.b64encode(path.read_bytes()).decode("ascii"))
    except OSError:
        return None


def _evaluations(record: RunRecord) -> Table | None:
    if not record.metrics:
        return None
    head = [name for name in dict.fromkeys(name for row in record.metrics for name in row) if name != "best"]
    rows = [[_cell(name, row.get(name)) for name in head] for row in record.metrics]
    best = record.best()
    place = None if best is None else record.metrics.index(best)
    return Table([name.replace("_", " ") for name in head], rows, best=place)


def _cell(name: str, value: float | None) -> object:
    """Empty for what was not measured."""
    if value is None or (name == "tokens_per_second" and math.isnan(value)):
        return ""
    return round(value, 1) if name == "epoch" else value


def _data(record: RunRecord) -> dict[str, object]:
    """The warnings, the plain facts and the nested facts of data.json."""
    data = dict(record.data)
    warnings = data.pop("warnings", [])
    nested = {name: value for name, value in data.items() if isinstance(value, dict | list)}
    return {
        "warnings": warnings if isinstance(warnings, list) else [warnings],
        "data": _facts({name: value for name, value in data.items() if name not in nested}),
        "data_details": _facts({name: value for name, value in nested.items() if value}),
    }


def _facts(value: object) -> object:
    """JSON made ready for the page: equal mappings become a table, names lose their underscores."""
    if isinstance(value, dict):
        return {str(name).replace("_", " "): _facts(item) for name, item in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        head = list(dict.fromkeys(name for item in value for name in item))
        rows = [["" if item.get(name) is None else _facts(item[name]) for name in head] for item in value]
        return Table([str(name).replace("_", " ") for name in head], rows)
    if isinstance(value, list):
        return [_facts(item) for item in value]
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
        return f"{value[:12]}…"  # a checksum: enough to compare by eye
    return "none" if value is None else value


def _split_comments(yaml: str) -> list[tuple[str, str]]:
    """The lines of a YAML file, each as code and comment."""
    lines = [re.fullmatch(r"(.*?)((?:(?:^|\s)#.*)?)", line) for line in yaml.strip("\n").split("\n")]
    return [(line[1], line[2]) for line in lines if line] if yaml.strip() else []


def _files(run: Path) -> Table | None:
    """Everything in the folder with its size; a folder is one line."""
    rows: list[list[object]] = []
    for path in sorted(run.iterdir()) if run.is_dir() else []:
        if path.name.startswith(".") or path.name == "report.html":
            continue
        inside = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
        name = f"{path.name}/ ({len(inside)} files)" if path.is_dir() else path.name
        rows.append([name, do_filesizeformat(sum(file.stat().st_size for file in inside))])
    return Table(["file", "size"], rows) if rows else None
