"""Everything that would go wrong with a training, found before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from antiphon.build import build_model
from antiphon.config.checks import check_config
from antiphon.config.schema import Config, DataConfig
from antiphon.errors import DataError, UserError
from antiphon.sources.batches import collate, padding_share, plan
from antiphon.sources.corpus import Prepared, prepare
from antiphon.sources.pairs import Dropped, read_pairs
from antiphon.training.loss import cross_entropy

__all__ = ["CheckReport", "check_run", "nothing_usable"]


@dataclass(frozen=True)
class CheckReport:
    """Problems stop a training, warnings do not."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    dropped: dict[str, Any] = field(default_factory=lambda: Dropped().facts())


def check_run(config: Config, say: Callable[[str], None]) -> CheckReport:
    """Reads all the data, builds the model and tries one batch."""
    problems = list(dict.fromkeys([*check_config(config), *_unreadable(config.data)]))
    if problems:
        return CheckReport(problems=problems)
    try:
        prepared = prepare(config.data, say)
    except UserError as error:
        return CheckReport(problems=error.problems)
    found = prepared.facts
    return CheckReport(warnings=list(found["warnings"]), facts=_facts(config, prepared), dropped=found["dropped"])


def nothing_usable(files: str | list[str], dropped: Dropped) -> DataError:
    """Not one line of a file can be used, and why."""
    names = files if isinstance(files, str) else " and ".join(files)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.reasons.most_common())
    remedy = "check data.source and data.target (column)"
    return DataError(f"{names}: not one line can be used ({reasons or 'only a header'}); {remedy}")


def _unreadable(data: DataConfig) -> list[str]:
    """The faults of each file, so that a bad train does not hide a bad dev."""
    problems: list[str] = []
    for files in (data.train, data.dev):
        if files is None:
            continue
        try:
            dropped = Dropped()
            if not any(True for _ in read_pairs(files, data, dropped)):
                raise nothing_usable(files, dropped)
        except UserError as error:
            problems += error.problems
    return problems


def _facts(config: Config, prepared: Prepared) -> list[str]:
    source, target = prepared.source_tokenizer, prepared.target_tokenizer
    lengths = prepared.train.source.lengths + 1, prepared.train.target.lengths + 1
    batches = plan(*lengths, budget=config.training.batch_tokens, seed=config.training.seed, epoch=0)
    with torch.random.fork_rng(devices=[]):  # the same words each time, and nobody else's random numbers are touched
        torch.manual_seed(config.training.seed)
        model = build_model(config.model, source_tokens=source.size, target_tokens=target.size)
        batch = collate(prepared.train, min(batches, key=len))
        loss = cross_entropy(model(batch.source, batch.inputs).logits, batch.outputs)
    loss.backward()
    longest = tuple(int(np.max(side)) for side in lengths)
    return [
        f"train: {len(prepared.train):,} pairs; dev: {len(prepared.dev):,} sources",
        f"vocabulary: {source.size:,} source tokens, {target.size:,} target tokens",
        f"longest: {longest[0] - 1} source tokens, {longest[1] - 1} target tokens",
        f"batches: {len(batches):,} an epoch, padding {padding_share(batches, *lengths):.1%}",
        f"model: {model.parameter_count:,} parameters; one batch tried, loss {float(loss.plain) / loss.count:.2f}",
    ]
