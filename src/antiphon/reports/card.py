"""RUN/card.md: the model card, with the task, data, network, results, use and limits of the model in a folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml

from antiphon.config.yaml_text import flat
from antiphon.data.pairs import describe_hold_out
from antiphon.files import write_text
from antiphon.plots.style import metric_label
from antiphon.reports.render import code_span, format_number, is_number, plain_or_code, render
from antiphon.reports.run_record import RunRecord, read_record
from antiphon.text import plural, visible

__all__ = ["has_attention", "write_card"]

FlatConfig = dict[str, object]  # `model.encoder.kind` → `lstm`

_NOT_METRICS = {"update", "epoch", "train_loss", "learning_rate", "tokens_per_second", "padding", "seconds", "best"}
_MODEL_KINDS = {
    "language-model": "language model",
    "concatenated": 'network over "source <sep> target"',
    "tagger": "tagger",
}
_NULL_MEANS = {"from": "scratch", "size": "the decoder's"}
_SIDE = re.compile(r"(data\.(?:source(?:\[\d+\])?|target))\.(?:kind|tokens)$")
_PART = re.compile(r"model\.((?:front|encoder|context|decoder)(?:\[\d+\])?)\.(.+)")
_VERSIONS = ("antiphon", "python", "torch", "platform", "cpu", "threads")


def write_card(run: Path) -> None:
    """Read the run folder and write its card.md; what is missing is left out."""
    record = read_record(run)
    config = _flat_config(record)
    values = {
        "record": record,
        "config": config,
        "parameters": record.summary.get("parameters"),
        "network": _network(config),
        "kind": _MODEL_KINDS.get(str(config.get("model.kind")), "encoder-decoder"),
        "is_language_model": _is_language_model(config),
        "has_attention": _config_has_attention(config),
        "task": _task(config),
        "parts": _parts(config),
        "versions": {name: record.environment[name] for name in _VERSIONS if name in record.environment},
    }
    values |= _data(record, config) | _results(record) | _examples(record, config)
    write_text(run / "card.md", render("card.md.j2", values))


def has_attention(run: Path) -> bool:
    """True if the model of a run has attention that `antiphon explain` can draw."""
    return _config_has_attention(_flat_config(read_record(run)))


def _flat_config(record: RunRecord) -> FlatConfig:
    """config.yaml as one flat mapping; an empty one if it cannot be read."""
    try:
        loaded = yaml.safe_load(record.config)
    except (yaml.YAMLError, ValueError):  # ValueError: a date that is none
        return {}
    return flat(loaded) if isinstance(loaded, dict) else {}


def _network(config: FlatConfig) -> str:
    """The kind of the decoder; of a tagger that of the encoder, which is all but its output layer."""
    part = "encoder" if config.get("model.kind") == "tagger" else "decoder"
    return str(config.get(f"model.{part}.kind", "attention")).capitalize()


def _is_language_model(config: FlatConfig) -> bool:
    return config.get("model.kind") == "language-model"


def _config_has_attention(config: FlatConfig) -> bool:
    """A Transformer has attention on either side; of the recurrent decoders all but the plain one."""
    encoders = [value for name, value in config.items() if re.fullmatch(r"model\.encoder(\[\d+\])?\.kind", name)]
    return "transformer" in encoders or config.get("model.decoder.kind", "bahdanau") != "plain"


def _task(config: FlatConfig) -> str:
    kinds = _source_kinds(config)
    if _is_language_model(config):
        return "continues a text"
    if config.get("model.kind") == "tagger":
        return "gives each word a label"
    if set(kinds) <= {"text"}:
        return "turns one sequence into another" if len(kinds) < 2 else f"turns {len(kinds)} texts into one"
    return f"turns {' and '.join(plain_or_code(kind) for kind in kinds)} into text"


def _source_kinds(config: FlatConfig) -> list[str]:
    """Empty if the configuration does not say."""
    return [str(value) for key, value in config.items() if re.fullmatch(r"data\.source(\[\d+\])?\.kind", key)]


def _data(record: RunRecord, config: FlatConfig) -> dict[str, object]:
    files = {split: config.get(f"data.{split}") for split in ("train", "dev")}
    dropped, warnings = record.data.get("dropped"), record.data.get("warnings")
    total = dropped.get("total") if isinstance(dropped, dict) else None
    return {
        "files": {split: paths if isinstance(paths, list) else [paths] for split, paths in files.items() if paths},
        "held_out": _held_out(config) if config.get("data.dev", "unknown") is None else "",
        "sides": list(dict.fromkeys(side[1] for key in config if (side := _SIDE.match(key)))),
        "left_out": plural(total, "lines") if isinstance(total, int) and total else "",
        "warnings": warnings if isinstance(warnings, list) else [],
    }


def _held_out(config: FlatConfig) -> str:
    things = "sources" if not _is_language_model(config) else "texts" if config.get("data.window") is None else "lines"
    share = config.get("data.hold_out")
    return describe_hold_out(things, f"{format_number(round(100 * share, 4) if is_number(share) else 0)} %")


def _parts(config: FlatConfig) -> list[dict[str, object]]:
    """Each part of the network with its kind and its options."""
    parts: dict[str, dict[str, object]] = {}
    for key, value in config.items():
        if match := _PART.match(key):
            parts.setdefault(match[1], {})[match[2]] = value
    return [
        {
            "name": name,
            "kind": options.get("kind", "unknown"),
            "options": ", ".join(f"{key} {_option(key, value)}" for key, value in options.items() if key != "kind"),
        }
        for name, options in parts.items()
    ]


def _option(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return _NULL_MEANS.get(key, "not set")
    return str(value) if is_number(value) else code_span(value)


def _results(record: RunRecord) -> dict[str, object]:
    best = record.best() or {}
    return {
        "results": {metric_label(name): value for name, value in best.items() if name not in _NOT_METRICS},
        "best_update": best.get("update"),
        "metric": metric_label(record.metric),
        "averaged_value": record.best_value() if record.summary.get("weights") == "averaged" else None,
    }


def _examples(record: RunRecord, config: FlatConfig) -> dict[str, object]:
    """Inputs as a file, a shell and Python write them."""
    kinds = _source_kinds(config) or ["text"]
    example = "\\t".join("a text" if kind == "text" else "path/to/file" for kind in kinds)
    columns = ["a text" if kind == "text" else "a path" for kind in kinds]
    name = visible(record.name, keep=" ")  # a line end in a folder's name would end the block of code
    return {
        "folder": shlex.quote(name),
        "python_name": repr(name),
        "example": example,
        "shell_example": f"'{example}'" if len(kinds) == 1 else f"$'{example}'",
        "input_line": " TAB ".join(columns) if len(kinds) > 1 else "a line in" if kinds == ["text"] else "a path in",
    }
