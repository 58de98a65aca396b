"""`antiphon check`: find everything that would go wrong in a training before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from antiphon.config.checks import check_config
from antiphon.config.schema import Config, DataConfig
from antiphon.data.batches import noise_warnings
from antiphon.data.build_source import reused_tokenizers
from antiphon.data.corpus import MultiSourceRows, read_lengths
from antiphon.data.encode import nothing_usable
from antiphon.data.pairs import DropLog, read_pairs
from antiphon.data.prepare import Prepared, prepare
from antiphon.data.tokenizers import Tokenizer
from antiphon.errors import UserError
from antiphon.model_folder import fresh_model
from antiphon.text import plural
from antiphon.training.callbacks import missing_trackers
from antiphon.training.estimate import DryRun, dry_run
from antiphon.training.numerics import (
    cpu_threads,
    keep_freed_memory,
    matmul_precision,
    probe_matmul,
    usable_training,
)
from antiphon.training.run import build_batches
from antiphon.training.step import ctc_length_warnings, training_step
from antiphon.training.transfer import freeze_parts, missing_runs, transfer_weights

__all__ = ["CheckReport", "check_run"]


@dataclass(frozen=True)
class CheckReport:
    """Problems, which stop a training, and warnings, which do not."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    measured: list[str] = field(default_factory=list, compare=False)  # differs from call to call
    dropped: dict[str, Any] = field(default_factory=lambda: DropLog().facts())
    dry_run: DryRun | None = field(default=None, compare=False)  # None if there are problems


def check_run(config: Config, log: Callable[[str], None]) -> CheckReport:
    """Read all data, build the model and try a few batches; nothing is written but the cache."""
    missing = [*_tokenizer_problems(config.data), *missing_runs(config.model)]
    missing += missing_trackers(config.training.track)
    problems = list(dict.fromkeys([*check_config(config), *_file_problems(config.data), *missing]))
    if problems:
        return CheckReport(problems=problems)
    try:
        prepared = prepare(config.data, log)
        keep_freed_memory()  # as training does, or it would seem slower
        with cpu_threads(config.training.threads), matmul_precision(probe_matmul().precision_for()):
            facts, tried, warnings = _try_batches(config, prepared)
            measured = [probe_matmul().describe(), tried.estimate.describe()]
    except UserError as error:
        return CheckReport(problems=error.problems)
    data = prepared.facts
    warnings = [*data["warnings"], *warnings]
    return CheckReport(warnings=warnings, facts=facts, measured=measured, dropped=data["dropped"], dry_run=tried)


def _file_problems(data: DataConfig) -> list[str]:
    """The problems of each file, so that a bad train file does not hide a bad dev file."""
    problems: list[str] = []
    for files in (data.train, data.dev):
        if files is None:
            continue
        try:
            dropped = DropLog()
            if not any(True for _ in read_pairs(files, data, dropped)) and not dropped.unreadable:
                raise nothing_usable(files, data, dropped)  # unreadable lines are listed elsewhere, all together
        except UserError as error:
            problems += error.problems
    return problems


def _tokenizer_problems(data: DataConfig) -> list[str]:
    """The problems of tokenizers that are taken from other runs."""
    try:
        reused_tokenizers(data)
    except UserError as error:
        return error.problems
    return []


def _try_batches(config: Config, prepared: Prepared) -> tuple[list[str], DryRun, list[str]]:
    """Run the smallest batch and time a few; return facts about data and model, the dry run, and warnings."""
    source, target = prepared.source, prepared.target_tokenizer
    slower: list[str] = []
    training = usable_training(config.training, slower.append)
    batches = build_batches(config, prepared)
    plan = batches.plan(epoch=0)
    with torch.random.fork_rng(devices=[]):  # the same loss each time, and the caller's random numbers stay
        torch.manual_seed(config.training.seed)
        model = fresh_model(config, source, target)
        transferred: list[str] = []
        transfer_weights(model, config, source, target, transferred.append)
        freeze_parts(model, config.model)
        batch = batches.collate(min(plan, key=len), epoch=0)
        loss = training_step(model, batch, training).loss
    loss.backward()
    model.zero_grad()
    facts = [
        *_data_facts(config.data, prepared),
        f"batches: {len(plan):,} per epoch, padding {batches.padding(plan):.1%}",
        f"model: {model.parameter_count:,} parameters; one batch tried, loss {float(loss.plain) / loss.count:.2f}",
        *transferred,
    ]
    lengths = read_lengths(prepared.train.source) if config.data.sources else np.zeros(0, np.int64)
    tried = dry_run(training, model, batches, plan, source_tokens=int(lengths.sum()))
    noise = noise_warnings(config.training, source, prepared.train)
    return facts, tried, [*ctc_length_warnings(model, prepared.train), *noise, *slower]


def _data_facts(data: DataConfig, prepared: Prepared) -> list[str]:
    """Sizes and lengths of the data."""
    train, dev, size = len(prepared.train), len(prepared.dev), prepared.target_tokenizer.size
    longest = [int(side.lengths.max()) for side in (prepared.train.source, prepared.train.target)]
    if data.window is not None:
        tokens = len(prepared.train.target.ids)
        return [
            f"train: a stream of {tokens:,} tokens in {plural(train, 'lines')}; dev: {plural(dev, 'lines')}",
            f"vocabulary: {size:,} tokens",
        ]
    if data.source is None:
        return [
            f"train: {plural(train, 'texts')}; dev: {plural(dev, 'texts')}",
            f"vocabulary: {size:,} tokens",
            f"longest: {longest[1]} tokens",
        ]
    pairs = f"train: {plural(train, 'pairs')}; dev: {plural(dev, 'sources')}"
    if not isinstance(prepared.source, Tokenizer):
        return [pairs, *_source_facts(prepared), f"target: vocabulary {size:,}, the longest has {longest[1]} tokens"]
    return [
        pairs,
        f"vocabulary: {prepared.source.size:,} source tokens, {size:,} target tokens",
        f"longest: {longest[0]} source tokens, {longest[1]} target tokens",
    ]


def _source_facts(prepared: Prepared) -> list[str]:
    """The kind, the size and the greatest length of each source."""
    rows = prepared.train.source
    parts = rows.parts if isinstance(rows, MultiSourceRows) else (rows,)
    facts = []
    for number, (source, part) in enumerate(zip(prepared.source.parts, parts, strict=True), start=1):
        name = f"source {number}" if len(parts) > 1 else "source"
        longest, size = int(part.lengths.max()), source.sizes[0]
        if isinstance(source, Tokenizer):
            facts.append(f"{name}: text, vocabulary {size:,}, the longest has {longest} tokens")
        else:
            facts.append(f"{name}: {source.kind}, vectors of {size:,} values, the longest has {longest}")
    return facts
