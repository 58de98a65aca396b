"""The facts about a model that a server publishes; none of them is a path of the server's own."""

from __future__ import annotations

import platform
from dataclasses import asdict
from pathlib import Path

import torch

from antiphon._version import __version__
from antiphon.config.schema import Config
from antiphon.errors import UserError
from antiphon.files import read_rows, sha256
from antiphon.inference.engine import TorchEngine
from antiphon.inference.explain_step import explainable_network
from antiphon.inference.generator import Generator
from antiphon.inference.options import OPTIONS
from antiphon.inference.streaming import unwatchable
from antiphon.model_folder import EXPORT, weights_update
from antiphon.reports.run_record import RunRecord, read_record
from antiphon.serve.attachments import source_names
from antiphon.serve.frames import Message

__all__ = ["model_facts"]

EXAMPLES, LONGEST_EXAMPLE = 5, 120  # inputs to begin with, and characters of one


def model_facts(generator: Generator, runs: list[Path], threads: int) -> Message:
    """Return its sources and target, its search options, what can be seen of it, and the checksums of its weights."""
    config, engine = generator.config, generator.engine
    parameters = generator.model.parameter_count if isinstance(engine, TorchEngine) else None
    return {
        "engine": engine.name,
        "kind": config.model.kind,
        "sources": [
            {"name": name, "kind": source.kind, "tokens": source.tokens if source.kind == "text" else None}
            for name, source in zip(source_names(config), config.data.sources, strict=True)
        ],
        "target": {"tokens": config.data.target.tokens},
        "target_tokens": generator.target_tokenizer.size,
        "parameters": parameters,
        "attention": engine.has_attention,
        "unwatchable": unwatchable(generator, generator.pipeline(generator.search_options({}))),
        "unexplained": unexplained(generator),
        "examples": examples(config, runs[0]),
        "decoding": {name: getattr(config.decoding, name) for name, option in OPTIONS.items() if option.configured},
        "positions": {"encoder": generator.limits.encoder, "decoder": generator.limits.decoder},
        "turns": None if generator.flag_limits.turns is None else asdict(generator.flag_limits.turns),
        "threads": threads,
        "sha256": [weights_sha256(run) for run in runs],
        "weights": [weights_facts(run, config) for run in runs],
        "versions": {"antiphon": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }


def unexplained(generator: Generator) -> str | None:
    """The reason why no step of this model can be worked out; None: it can."""
    try:
        explainable_network(generator)
    except UserError as error:
        return error.problems[0]
    return None


def examples(config: Config, run: Path) -> list[str]:
    """Short inputs that the training was tried on, the latest first; of texts only."""
    if [source.kind for source in config.data.sources] not in ([], ["text"]):
        return []
    sources = [str(row.get("source", "")) for row in reversed(read_rows(run / "samples.jsonl"))]
    short = [text for text in dict.fromkeys(sources) if text.strip() and len(text) <= LONGEST_EXAMPLE]
    return short[:EXAMPLES]


def weights_sha256(run: Path) -> str:
    """The checksum of the weights: of the file itself, or of the table of files of an export."""
    return sha256(run / (EXPORT if (run / EXPORT).is_file() else "model.safetensors"))


def weights_facts(run: Path, config: Config) -> Message:
    """Return the update of the training after which the weights were saved, of how many, and whether it has ended."""
    record = read_record(run)
    made = record.summary.get("updates")
    updates = made or planned_updates(record, config)
    return {"update": weights_update(run, weights_sha256(run)), "updates": updates, "ended": made is not None}


def planned_updates(record: RunRecord, config: Config) -> int | None:
    """The most updates that a training makes; None: its first evaluation, which tells, is still to come."""
    last = record.metrics[-1] if record.metrics else {}
    update, epoch = last.get("update", 0.0), last.get("epoch", 0.0)
    by_epochs = [config.training.epochs * round(update / epoch)] if update and epoch else []
    most = config.training.max_updates
    return min([*by_epochs, *([] if most is None else [most])], default=None)
