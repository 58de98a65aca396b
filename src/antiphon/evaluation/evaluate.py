"""Evaluate a model on examples: decode, compare with the references, estimate intervals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

from antiphon.config.checks import needs_answers
from antiphon.data.pairs import Example
from antiphon.errors import UserError
from antiphon.evaluation.classes import Classes, class_names, compare_classes
from antiphon.evaluation.intervals import Estimate, Group, estimate_groups, estimate_value
from antiphon.evaluation.likelihood import LIKELIHOOD_METRICS, SIGNATURES, likelihood_estimate, likelihoods
from antiphon.evaluation.metrics import References, metric_for, words
from antiphon.evaluation.predictions import Prediction, example_values, join_predictions, worst_predictions
from antiphon.inference.flags import unknown_flags
from antiphon.inference.generation import Generation
from antiphon.inference.generator import Generator
from antiphon.inference.options import SearchKeywords, is_given

__all__ = ["Evaluation", "evaluate_examples", "normalized_references"]

SAMPLES = 1000  # of the bootstrap


@dataclass(frozen=True)
class Evaluation:
    """Metrics with their 95 % intervals, and the outputs they were computed from."""

    values: dict[str, Estimate]
    signatures: dict[str, str]
    examples: int
    outputs: list[str]  # empty if no metric compares outputs
    flagged: int  # answers with a flag; of a language model, texts with unknown symbols
    seconds: float
    dropped: dict[str, Any]
    unit: str = "examples"  # the unit of `examples`, which the bootstrap draws
    classes: Classes | None = None  # if the targets are classes and the sources were decoded
    groups: list[Group] = field(default_factory=list)  # the first comparing metric of each group
    predictions: list[Prediction] = field(default_factory=list)  # one for each example, in order

    def worst(self, count: int) -> list[Prediction]:
        """The wrong answers that are the worst by the first comparing metric, or the least probable texts."""
        return worst_predictions(self.predictions, count)


def evaluate_examples(
    generator: Generator,
    examples: list[Example],
    *,
    metrics: list[str],
    group_names: Sequence[str] | None = None,
    dropped: dict[str, Any] | None = None,
    resamples: int = SAMPLES,
    **search: Unpack[SearchKeywords],
) -> Evaluation:
    """Compute metrics over the examples; an output is compared with its best reference.

    Sources are decoded once, and only if a metric compares outputs. `group_names` holds the group of each example.
    Without `resamples` of the bootstrap there are neither intervals nor classes nor values of single examples.
    """
    began, data = time.perf_counter(), generator.config.data
    compared = [name for name in metrics if name not in LIKELIHOOD_METRICS]
    if data.source is None and compared:
        raise UserError([f"metrics: {needs_answers(name)}" for name in compared])
    if not compared:
        _refuse_search_options(metrics, search, groups=group_names is not None)
    search["log_probs"] = False
    sources = [example.source for example in examples] if compared else []
    answers = generator.generate(sources, weights=False, **search)
    outputs, references = [answer.text for answer in answers], _references(generator, examples)
    chosen = {name: metric_for(name, data.target.tokens) for name in compared}
    statistics = {name: metric.checked_statistics(outputs, references) for name, metric in chosen.items()}
    values = {name: estimate_value(rows, chosen[name].value, samples=resamples) for name, rows in statistics.items()}
    signatures = SIGNATURES | {name: metric.signature(references) for name, metric in chosen.items()}
    flags, count, unit = _flags(generator, examples, answers), len(examples), "examples"
    single = example_values(chosen, statistics, outputs, references) if resamples else {}
    if data.source is None or len(compared) < len(metrics):
        found = likelihoods(generator, examples, search.get("batch_size"))
        others = [name for name in metrics if name in LIKELIHOOD_METRICS]
        values |= {name: likelihood_estimate(found.rows, name, resamples) for name in others}
        single |= {name: LIKELIHOOD_METRICS[name](found.examples).tolist() for name in others if resamples}
        if data.source is None:
            count, unit = len(found.rows), "texts" if data.window is None else f"windows of {data.window} tokens"
    return Evaluation(
        values={name: values[name] for name in metrics},
        signatures={name: signatures[name] for name in metrics if name in signatures},
        examples=count,
        outputs=outputs,
        flagged=sum(map(bool, flags)),
        seconds=time.perf_counter() - began,
        dropped=dropped or {},
        unit=unit,
        classes=_classes(outputs, references, data.target.tokens) if compared and resamples else None,
        groups=estimate_groups(chosen[compared[0]], outputs, references, group_names, resamples) if group_names else [],
        predictions=join_predictions(examples, references, answers, flags, single),
    )


def _flags(generator: Generator, examples: list[Example], answers: list[Generation]) -> list[list[str]]:
    """The flags of each answer; of a language model, the unknown symbols of each text."""
    if generator.config.data.source is None:
        texts = [example.references[0] for example in examples]
        return [unknown_flags("text", generator.target_tokenizer.unknown(text)) for text in texts]
    return [answer.flags for answer in answers] or [[] for _ in examples]


def _refuse_search_options(metrics: list[str], search: SearchKeywords, *, groups: bool) -> None:
    """Raise UserError for options of the search if nothing is decoded."""
    idle = ("batch_size", "log_probs")
    options = [name for name, value in search.items() if is_given(value) and name not in idle]
    options += ["groups"] if groups else []
    why = f"nothing is decoded for {', '.join(metrics) or 'no metric'}; leave it out"
    if options:
        raise UserError([f"{option}: {why}" for option in options])


def _references(generator: Generator, examples: list[Example]) -> References:
    """The references in the form of outputs: letters come back composed, and all in lower case if data says so."""
    normalize = generator.target_tokenizer.normalize
    return [tuple(map(normalize, example.references)) for example in examples]


def _classes(outputs: list[str], references: References, tokens: str) -> Classes | None:
    """The confusion of classes, compared as exact_match compares texts; None if the targets are not classes."""
    normalized = normalized_references(references, tokens)
    names = class_names(normalized)
    if names is None:
        return None
    return compare_classes([_normalized(output, tokens) for output in outputs], normalized, names)


def normalized_references(references: References, tokens: str) -> References:
    """The references with single spaces if tokens are words: such a model cannot say how wide a space is."""
    return [tuple(_normalized(text, tokens) for text in texts) for texts in references]


def _normalized(text: str, tokens: str) -> str:
    return " ".join(words(text)) if tokens == "words" else text
