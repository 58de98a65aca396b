"""RUN/card.md: what the model in this folder is, how well it does, how to use it and where it ends."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml

from antiphon.config.dump import flat
from antiphon.data.encode import part_of
from antiphon.files import write_text
from antiphon.plots.style import metric_label
from antiphon.reports.markup import number
from antiphon.reports.run_record import Record, read_record
from antiphon.text import amount, visible

__all__ = ["attends", "write_card"]

_NOT_METRICS = {"update", "epoch", "train_loss", "learning_rate", "tokens_per_second", "padding", "seconds", "best"}
KINDS = {"language-model": "language model", "concatenated": 'network over "source <sep> target"'}
_UNSET = {"from": "scratch", "size": "the decoder's"}  # what null means
_SIDE = re.compile(r"(data\.(?:source(?:\[\d+\])?|target))\.(?:kind|tokens)$")
_PART = re.compile(r"model\.((?:front|encoder|context|decoder)(?:\[\d+\])?)\.")
_VERSIONS = ("antiphon", "python", "torch", "platform", "cpu", "threads")


def write_card(run: Path) -> None:
    """Read what the run folder holds and write its card.md; what is missing is left out."""
    record = read_record(run)
    config = _config(record)
    parts = [
        f"# {_code(record.name)}",
        _what(record, config),
        _part("Data", _data(record, config)),
        _part("Model", _model(record, config)),
        _part("Results on dev", _results(record)),
        _part("Use", _use(record, config)),
        _part("Limits", _limits(record, config)),
        _part("Made with", _versions(record)),
    ]
    write_text(run / "card.md", "\n\n".join(part for part in parts if part) + "\n")


def _config(record: Record) -> dict[str, object]:
    """The sections of config.yaml as one flat mapping; nothing if it cannot be read."""
    try:
        loaded = yaml.safe_load(record.config)
    except (yaml.YAMLError, ValueError):  # ValueError: a date that is none
        return {}
    return flat(loaded) if isinstance(loaded, dict) else {}


def _code(value: object) -> str:
    """Any value as a code span that no text can leave: one line, a fence longer than its own backticks."""
    words = visible(str(value), keep=" ")
    longest = max((len(ticks) for ticks in re.findall("`+", words)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {words} {fence}" if longest else f"`{words}`"


def _name(label: str) -> str:
    """A name as it is if it is a harmless one, else as code; a bar would end the cell of a table."""
    return label if re.fullmatch(r"[\w ()%-]+", label) else _code(label).replace("|", "\\|")


def _part(title: str, lines: list[str]) -> str:
    return f"## {title}\n\n" + "\n".join(lines) if lines else ""


def _what(record: Record, config: dict[str, object]) -> str:
    kind = str(config.get("model.kind", "encoder-decoder"))
    network = _name(str(config.get("model.decoder.kind", "attention")).capitalize())
    size = record.summary.get("parameters")
    weights = f" with {number(size)} parameters" if isinstance(size, int) else ""
    return (
        f"{network} {KINDS.get(kind, 'encoder-decoder')}{weights} that {_does(config)}, trained with Antiphon. "
        "This folder is the run and the model: copy it as it is."
    )


def _does(config: dict[str, object]) -> str:
    kinds = _kinds(config)
    if _is_text(config):
        return "says how a text goes on"
    if set(kinds) <= {"text"}:
        return "turns one sequence into another" if len(kinds) < 2 else f"makes one text of {len(kinds)}"
    return f"makes text of {' and '.join(_name(kind) for kind in kinds)}"


def _is_text(config: dict[str, object]) -> bool:
    """A language model."""
    return config.get("model.kind") == "language-model"


def attends(run: Path) -> bool:
    """Whether the model of a run has attention that `antiphon explain` can draw."""
    return _attends(_config(read_record(run)))


def _attends(config: dict[str, object]) -> bool:
    """A Transformer has attention on either side; of the recurrent decoders all but the plain one."""
    readers = [value for name, value in config.items() if re.fullmatch(r"model\.encoder(\[\d+\])?\.kind", name)]
    return "transformer" in readers or config.get("model.decoder.kind", "bahdanau") != "plain"


def _data(record: Record, config: dict[str, object]) -> list[str]:
    lines = [f"- {name}: {_files(config[f'data.{name}'])}" for name in ("train", "dev") if config.get(f"data.{name}")]
    if "data.dev" in config and config["data.dev"] is None:
        what = "sources" if not _is_text(config) else "texts" if config.get("data.window") is None else "lines"
        part = part_of(what, f"{number(_percent(config.get('data.hold_out')))} %")
        lines.append(f"- dev: {part}, held out of train")
    lines += _sides(config)
    if isinstance(config.get("data.window"), int):
        lines.append(f"- one stream, in windows of {number(int(str(config['data.window'])))} tokens")
    dropped = record.data.get("dropped")
    total = dropped.get("total") if isinstance(dropped, dict) else None
    if isinstance(total, int) and total:
        lines.append(f"- left out: {amount(total, 'lines')}; `data.json` lists them by reason")
    return lines


def _sides(config: dict[str, object]) -> list[str]:
    """What goes in and what comes out."""
    lines = []
    for side in dict.fromkeys(found[1] for key in config if (found := _SIDE.match(key))):
        name = "text" if _is_text(config) else side.removeprefix("data.")
        if f"{side}.tokens" in config:
            lines.append(f"- {name}: {_code(config[f'{side}.tokens'])} as tokens")
        else:
            kind, column = (_code(config.get(f"{side}.{key}", "unknown")) for key in ("kind", "column"))
            lines.append(f"- {name}: files of kind {kind}, whose paths stand in column {column}")
    return lines


def _files(value: object) -> str:
    return " and ".join(_code(name) for name in value) if isinstance(value, list) else _code(value)


def _percent(share: object) -> float:
    return round(100 * share, 4) if isinstance(share, int | float) else 0.0


def _model(record: Record, config: dict[str, object]) -> list[str]:
    lines = []
    parts = dict.fromkeys(found[1] for name in config if (found := _PART.match(name)))
    for part in parts:
        start = f"model.{part}."
        keys = {name.removeprefix(start): value for name, value in config.items() if name.startswith(start)}
        if keys:
            words = ", ".join(f"{name} {_word(name, value)}" for name, value in keys.items() if name != "kind")
            lines.append(f"- {part}: {_code(keys.get('kind', 'unknown'))} ({words})")
    if isinstance(record.summary.get("parameters"), int):
        lines.append(f"- parameters: {number(record.summary['parameters'])}")
    if record.summary.get("weights"):
        lines.append(f"- weights: {_code(record.summary['weights'])}")
    return lines


def _word(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return _UNSET.get(name, "not set")
    return str(value) if isinstance(value, int | float) else _code(value)


def _results(record: Record) -> list[str]:
    best = record.best()
    if best is None:
        return []
    values = {name: value for name, value in best.items() if name not in _NOT_METRICS}
    lines = ["| metric | value |", "|---|---:|"]
    lines += [f"| {_name(metric_label(name))} | {number(value)} |" for name, value in values.items()]
    chosen, value = _name(metric_label(record.metric)), record.best_value()
    lines += ["", f"At update {number(best['update'])}, chosen by {chosen}; `metrics.csv` has every evaluation."]
    if record.summary.get("weights") == "averaged" and value is not None:
        lines.append(f"The weights in this folder are an average and do better: {chosen} {number(value)}.")
    return lines


def _use(record: Record, config: dict[str, object]) -> list[str]:
    name = visible(record.name, keep=" ")  # a line end in a folder's name would end the block of code
    folder = shlex.quote(name)
    commands = [
        f"antiphon generate {folder} input.txt     # {_asked(config)}, a line out",
        f"antiphon evaluate {folder} pairs.tsv     # metrics with 95 % intervals",
        f"antiphon explain {folder} {_given(config)} --out attention.png"
        if _attends(config)
        else f"antiphon map {folder} input.txt --out map.html    # sentences as points",
    ]
    if _is_text(config):
        commands = [
            f"antiphon generate {folder} prompts.txt --sample     # goes on where each line ends",
            f"antiphon score {folder} texts.txt                   # log p of each line",
            f"antiphon evaluate {folder} texts.txt                # perplexity and more, with 95 % intervals",
        ]
    return [
        "```sh",
        *commands,
        "```",
        "",
        "```python",
        "import antiphon",
        "",
        f"print(antiphon.load({name!r}).generate({_given(config, python=True)}).text)",
        "```",
    ]


def _kinds(config: dict[str, object]) -> list[str]:
    """Of the sources; nothing if the configuration does not say."""
    return [str(value) for key, value in config.items() if re.fullmatch(r"data\.source(\[\d+\])?\.kind", key)]


def _asked(config: dict[str, object]) -> str:
    """What stands on a line of input."""
    kinds = _kinds(config)
    if len(kinds) > 1:
        return " TAB ".join("a text" if kind == "text" else "a path" for kind in kinds)
    return "a line in" if set(kinds) <= {"text"} else "a path in"


def _given(config: dict[str, object], *, python: bool = False) -> str:
    """An example of what is asked, as a shell or Python writes it."""
    words = ["a text" if kind == "text" else "path/to/file" for kind in _kinds(config) or ["text"]]
    text = "\\t".join(words)
    if python:
        return f'"{text}"'
    return f"'{text}'" if len(words) == 1 else f"$'{text}'"


def _limits(record: Record, config: dict[str, object]) -> list[str]:
    lines = [
        "- The dev examples chose the weights, so the results above flatter the model a little; "
        "`antiphon evaluate` on examples it never saw tells more.",
        "- It knows only what its training data shows: other kinds of text give answers just as fluent, and wrong.",
        "- Symbols it never saw are read as unknown and flagged with the answer.",
    ]
    longest = config.get("data.source.max_length")
    if isinstance(longest, int):
        unit = "tokens" if "data.source.tokens" in config else "positions"
        lines.append(f"- It was trained on sources of at most {number(longest)} {unit}; longer ones are a guess.")
    warnings = record.data.get("warnings")
    if isinstance(warnings, list):
        lines += [f"- Said of the data: {_code(warning)}" for warning in warnings]
    return lines


def _versions(record: Record) -> list[str]:
    lines = [f"- {name}: {_code(record.environment[name])}" for name in _VERSIONS if name in record.environment]
    return [*lines, f"- command: {_code(record.command)}"] if record.command else lines
