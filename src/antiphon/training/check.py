"""Everything that would go wrong with a training, found before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from antiphon.build import build_model
from antiphon.config.schema import Config, DataConfig
from antiphon.errors import DataError, UserError
from antiphon.sources.batches import collate, padding_share, plan
from antiphon.sources.corpus import Prepared, prepare
from antiphon.sources.pairs import Dropped, read_pairs
from antiphon.training.loss import cross_entropy

__all__ = ["CheckReport", "check_run"]


@dataclass(frozen=True)
class CheckReport:
    """Problems stop a training, warnings do not."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)


def check_run(config: Config, say: Callable[[str], None]) -> CheckReport:
    """Reads all the data, builds the model and tries one batch."""
    problems = _unreadable(config.data)
    if problems:
        return CheckReport(problems=problems)
    try:
        prepared = prepare(config.data, say)
    except UserError as error:
        return CheckReport(problems=error.problems)
    return CheckReport(warnings=list(prepared.facts["warnings"]), facts=_facts(config, prepared))


def _unreadable(data: DataConfig) -> list[str]:
    """The faults of each file, so that a bad train does not hide a bad dev."""
    problems: list[str] = []
    for files in (data.train, data.dev):
        if files is None:
            continue
        try:
            dropped = Dropped()
            if not any(True for _ in read_pairs(files, data, dropped)):
                raise DataError(f"{files}: not one line can be used; dropped: {dict(dropped.reasons)}")
        except UserError as error:
            problems += error.problems
    return problems


def _facts(config: Config, prepared: Prepared) -> list[str]:
    source, target = prepared.source_tokenizer, prepared.target_tokenizer
    lengths = prepared.train.source.lengths + 1, prepared.train.target.lengths + 1
    batches = plan(*lengths, budget=config.training.batch_tokens, seed=config.training.seed, epoch=0)
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
