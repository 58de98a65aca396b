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
from antiphon.model_folder import EXPORT
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
