"""RUN/report.html: the whole run in one file that needs no network and no script."""

from __future__ import annotations

import math
import re
from importlib import resources
from pathlib import Path
from string import Template

from antiphon._version import __version__
from antiphon.files import write_text
from antiphon.plots.style import metric_label
from antiphon.reports import markup
from antiphon.reports.markup import Html, definitions, facts, number, picture, section, table, text
from antiphon.reports.run_record import Record, Sample, read_record

__all__ = ["write_report"]

_PICTURES = 12  # attention pictures inside the file; the newest
_SOURCES = 30  # sources whose answers are shown


def write_report(run: Path) -> None:
    """Read what the run folder holds and write its report.html; what is missing is left out."""
    record = read_record(run)
    parts = resources.files("antiphon.reports")
    page = Template(parts.joinpath("report.html").read_text(encoding="utf-8")).substitute(
        title=text(record.name),
        style=parts.joinpath("report.css").read_text(encoding="utf-8"),
        command=Html(f'<pre class="command">{text(record.command)}</pre>') if record.command else "",
        tiles=_tiles(record),
        sections="\n".join(part for part in _sections(record) if part),
        version=text(__version__),
    )
    write_text(run / "report.html", page)


def _sections(record: Record) -> list[Html]:
    return [
        _stopped(record),
        section("Learning", _curves(record.run)),
        section("Answers while it learnt", _answers(record.samples)),
        section("Attention", *_attention(record.run)),
        section("Evaluations on dev", _evaluations(record)),
        section("Data", *_data(record)),
        section("Configuration", markup.yaml(record.config)),
        section("Environment", facts(record.environment)),
        section("Files", _files(record.run)),
    ]


def _curves(run: Path) -> Html:
    """Four panels side by side: on a narrow screen they scroll rather than shrink."""
    drawn = picture(run / "results.png", "")
    return Html(f'<div class="curves">{drawn}</div>') if drawn else Html("")


def _tiles(record: Record) -> Html:
    """The few numbers one looks for first."""
    summary = record.summary
    tiles: list[tuple[object, str]] = [(record.best_value(), f"dev {metric_label(record.metric)}")]
    tiles += [(summary.get("parameters"), "parameters"), (summary.get("updates"), "updates")]
    tiles += [(_epochs(summary.get("epochs")), "epochs"), (_duration(summary.get("seconds")), "training time")]
    drawn = [
        f'<div class="tile"><b>{text(number(fact) if isinstance(fact, int | float) else fact)}</b>'
        f"<span>{text(name)}</span></div>"
        for fact, name in tiles
        if fact is not None
    ]
    return Html('<div class="tiles">' + "".join(drawn) + "</div>") if drawn else Html("")


def _epochs(passes: object) -> str | None:
    return f"{passes:.1f}" if isinstance(passes, int | float) else None


def _duration(seconds: object) -> str | None:
    if not isinstance(seconds, int | float):
        return None
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _stopped(record: Record) -> Html:
    summary = record.summary
    pairs: list[tuple[str, object]] = []
    if summary.get("stopped"):
        pairs.append(("stopped", summary["stopped"]))
    if summary.get("weights"):
        best = summary.get("best_update")
        when = "no evaluation yet" if best is None else f"best at update {best}"
        pairs.append(("weights kept", f"{summary['weights']} ({when})"))
    if summary.get("skipped_updates"):
        pairs.append(("skipped updates", f"{summary['skipped_updates']} (their loss was not a number)"))
    return section("How it ended", definitions(pairs))


def _answers(samples: list[Sample]) -> Html:
    """For every source or prompt: the last answer, right or wrong by update, and all answers folded away."""
    by_source: dict[str, list[Sample]] = {}
    for sample in sorted(samples, key=lambda sample: sample.update):
        by_source.setdefault(sample.source, []).append(sample)
    blocks = [_answer(history) for history in list(by_source.values())[:_SOURCES]]
    if len(by_source) > _SOURCES:
        blocks.append(Html(f'<p class="note">{len(by_source) - _SOURCES} more in samples.jsonl</p>'))
    return Html("\n".join(blocks))


def _answer(history: list[Sample]) -> Html:
    last = history[-1]
    if last.right is None:
        pairs = [("prompt", text(last.source))]
    else:
        pairs = [("source", text(last.source)), ("reference", text(" · ".join(last.references)))]
    pairs.append((f"answer at {number(last.update)}", Html(f"{_mark(last)} {text(last.output)}".strip())))
    body = "".join(f"<dt>{text(name)}</dt><dd>{value}</dd>" for name, value in pairs)
    if len(history) == 1:
        return Html(f'<div class="sample"><dl>{body}</dl></div>')
    squares = "".join(
        f'<i class="{"right" if sample.right else "wrong"}" title="{number(sample.update)}: {text(sample.output)}"></i>'
        for sample in history
        if sample.right is not None
    )
    rows: list[list[object]] = [[sample.update, _mark(sample), sample.output] for sample in history]
    folded = markup.details(f"all {len(history)} answers", table(["update", "", "answer"], rows))
    strip = f'<div class="strip">{squares}</div>' if squares else ""
    return Html(f'<div class="sample"><dl>{body}</dl>{strip}{folded}</div>')


def _mark(sample: Sample) -> Html:
    if sample.right is None:
        return Html("")
    return Html('<span class="right">✓ right</span>' if sample.right else '<span class="wrong">✗ wrong</span>')


def _attention(run: Path) -> list[Html]:
    """The newest pictures: matrices of texts, and what was looked at in pictures, sounds and videos."""
    paths = sorted((run / "attention").glob("*.png"), key=_natural)
    newest = paths[-_PICTURES:]
    heads = [path for path in newest if path.stem.endswith("-heads")]  # a panel for each, so they need the whole width
    drawn = _gallery("gallery", [path for path in newest if path not in heads]) + _gallery("gallery wide", heads)
    if not drawn:
        return []
    left = len(paths) - _PICTURES
    more = f" {left} older ones are in attention/." if left > 0 else ""
    mean = " Of many heads the mean comes first, then each of them." if heads else ""
    shown = (
        "Each token written has a row or a picture of its own: what it looked at; the stronger the colour, the more."
    )
    return [Html(f'<p class="note">{text(shown + mean + more)}</p>'), Html(drawn)]


def _gallery(kind: str, paths: list[Path]) -> str:
    drawn = "".join(picture(path, f"attention/{path.name}") for path in paths)
    return f'<div class="{kind}">{drawn}</div>' if drawn else ""


def _natural(path: Path) -> list[tuple[int, str]]:
    """`update-900` before `update-1000`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", path.stem)]


def _evaluations(record: Record) -> Html:
    if not record.metrics:
        return Html("")
    head = [name for name in dict.fromkeys(name for row in record.metrics for name in row) if name != "best"]
    rows: list[list[object]] = [[_figure(name, row.get(name)) for name in head] for row in record.metrics]
    best = record.best()
    place = record.metrics.index(best) if best is not None else None
    return table([name.replace("_", " ") for name in head], rows, best=place)


def _figure(name: str, value: float | None) -> object:
    """One cell; empty for what was not measured."""
    if value is None or (name == "tokens_per_second" and math.isnan(value)):
        return ""
    return round(value, 1) if name == "epoch" else value


def _data(record: Record) -> list[Html]:
    known = dict(record.data)
    warnings = known.pop("warnings", [])
    said = warnings if isinstance(warnings, list) else [warnings]
    drawn = [Html(f'<p class="warning">{text(warning)}</p>') for warning in said]
    plain = {name: value for name, value in known.items() if not isinstance(value, dict | list)}
    drawn.append(facts(plain))
    for name, value in known.items():
        if isinstance(value, dict | list) and value:
            drawn.append(Html(f"<h3>{text(str(name).replace('_', ' '))}</h3>{facts(value)}"))
    return drawn


def _files(run: Path) -> Html:
    """Everything in the folder with its size; folders as one line."""
    rows: list[list[object]] = []
    for path in sorted(run.iterdir()) if run.is_dir() else []:
        if path.name.startswith(".") or path.name == "report.html":
            continue
        inside = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
        name = f"{path.name}/ ({len(inside)} files)" if path.is_dir() else path.name
        rows.append([name, markup.size(sum(file.stat().st_size for file in inside))])
    return table(["file", "size"], rows) if rows else Html("")
