"""Everything that would go wrong with a training, found before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from antiphon.config.checks import check_config
from antiphon.config.schema import Config, DataConfig
from antiphon.data.build_tokenizer import given_tokenizers
from antiphon.data.corpus import SeveralRows
from antiphon.data.encode import nothing_usable
from antiphon.data.pairs import Dropped, read_pairs
from antiphon.data.prepare import Prepared, prepare
from antiphon.data.tokenizers import Tokenizer
from antiphon.errors import UserError
from antiphon.model_folder import fresh_model
from antiphon.text import amount
from antiphon.training.step import build_batches, ctc_length_warnings, training_step
from antiphon.training.transfer import missing_runs, transfer_weights

__all__ = ["CheckReport", "check_run"]


@dataclass(frozen=True)
class CheckReport:
    """Problems stop a training, warnings do not."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    dropped: dict[str, Any] = field(default_factory=lambda: Dropped().facts())


def check_run(config: Config, say: Callable[[str], None]) -> CheckReport:
    """Reads all the data, builds the model and tries one batch."""
    missing = [*_unusable_tokenizers(config.data), *missing_runs(config.model)]
    problems = list(dict.fromkeys([*check_config(config), *_unreadable(config.data), *missing]))
    if problems:
        return CheckReport(problems=problems)
    try:
        prepared = prepare(config.data, say)
        facts, warnings = _tried(config, prepared)
    except UserError as error:
        return CheckReport(problems=error.problems)
    found = prepared.facts
    return CheckReport(warnings=[*found["warnings"], *warnings], facts=facts, dropped=found["dropped"])


def _unreadable(data: DataConfig) -> list[str]:
    """The faults of each file, so that a bad train does not hide a bad dev."""
    problems: list[str] = []
    for files in (data.train, data.dev):
        if files is None:
            continue
        try:
            dropped = Dropped()
            if not any(True for _ in read_pairs(files, data, dropped)) and not dropped.unreadable:
                raise nothing_usable(files, data, dropped)  # what cannot be read is listed with all others of its kind
        except UserError as error:
            problems += error.problems
    return problems


def _unusable_tokenizers(data: DataConfig) -> list[str]:
    """What is wrong with the tokenizers of other runs."""
    try:
        given_tokenizers(data)
    except UserError as error:
        return error.problems
    return []


def _of_data(data: DataConfig, prepared: Prepared) -> list[str]:
    """How much there is of it, and how long it is."""
    target = prepared.target_tokenizer.size
    longest = [int(side.lengths.max()) for side in (prepared.train.source, prepared.train.target)]
    if data.window is not None:
        tokens = len(prepared.train.target.ids)
        return [
            f"train: a stream of {tokens:,} tokens in {amount(len(prepared.train), 'lines')}; "
            f"dev: {amount(len(prepared.dev), 'lines')}",
            f"vocabulary: {target:,} tokens",
        ]
    if data.source is None:
        return [
            f"train: {amount(len(prepared.train), 'texts')}; dev: {amount(len(prepared.dev), 'texts')}",
            f"vocabulary: {target:,} tokens",
            f"longest: {longest[1]} tokens",
        ]
    count = f"train: {amount(len(prepared.train), 'pairs')}; dev: {amount(len(prepared.dev), 'sources')}"
    if not isinstance(prepared.source, Tokenizer):
        return [count, *_of_sources(prepared), f"target: {target:,} different tokens, the longest has {longest[1]}"]
    return [
        count,
        f"vocabulary: {prepared.source.size:,} source tokens, {target:,} target tokens",
        f"longest: {longest[0]} source tokens, {longest[1]} target tokens",
    ]


def _of_sources(prepared: Prepared) -> list[str]:
    """What each source is, and how long it gets."""
    rows = prepared.train.source
    parts = rows.parts if isinstance(rows, SeveralRows) else (rows,)
    found = []
    for number, (source, part) in enumerate(zip(prepared.source.parts, parts, strict=True), start=1):
        name = f"source {number}" if len(parts) > 1 else "source"
        longest, size = int(part.lengths.max()), source.sizes[0]
        if isinstance(source, Tokenizer):
            found.append(f"{name}: text, {size:,} different tokens, the longest has {longest}")
        else:
            found.append(f"{name}: {source.kind}, vectors of {size:,} values, the longest has {longest}")
    return found


def _tried(config: Config, prepared: Prepared) -> tuple[list[str], list[str]]:
    """Facts about the data, the batches and the model, one batch of which was tried; what to warn of."""
    source, target = prepared.source, prepared.target_tokenizer
    batches = build_batches(config, prepared)
    planned = batches.plan(epoch=0)
    with torch.random.fork_rng(devices=[]):  # the same words each time, and nobody else's random numbers are touched
        torch.manual_seed(config.training.seed)
        model = fresh_model(config, source, target)
        parts: list[str] = []
        transfer_weights(model, config, source, target, parts.append)
        batch = batches.collate(min(planned, key=len), epoch=0)
        loss = training_step(model, batch, config.training).loss
    loss.backward()
    facts = [
        *_of_data(config.data, prepared),
        f"batches: {len(planned):,} an epoch, padding {batches.padding(planned):.1%}",
        f"model: {model.parameter_count:,} parameters; one batch tried, loss {float(loss.plain) / loss.count:.2f}",
        *parts,
    ]
    return facts, ctc_length_warnings(model, prepared.train)
