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
from antiphon.evaluation.intervals import Estimate, Group, estimate, estimate_groups
from antiphon.evaluation.likelihood import LIKELIHOOD_METRICS, SIGNATURES, likelihood, likelihood_estimate
from antiphon.evaluation.metrics import References, metric_for, words
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
    Without `resamples` of the bootstrap there are neither intervals nor classes.
    """
    compared = [name for name in metrics if name not in LIKELIHOOD_METRICS]
    if not compared:
        _refuse_search_options(metrics, search, groups=group_names is not None)
    if generator.config.data.source is None:
        return _evaluate_language_model(
            generator, examples, metrics, search.get("batch_size"), dropped or {}, resamples
        )
    began = time.perf_counter()
    search["log_probs"] = False
    answers = generator.generate([one.source for one in examples] if compared else [], weights=False, **search)
    outputs, references = [answer.text for answer in answers], _references(generator, examples)
    tokens = generator.config.data.target.tokens
    chosen = {name: metric_for(name, tokens) for name in compared}
    values = {name: estimate(metric, outputs, references, samples=resamples) for name, metric in chosen.items()}
    values |= _likelihood_values(generator, examples, metrics, search.get("batch_size"), resamples)
    signatures = SIGNATURES | {name: metric.signature(references) for name, metric in chosen.items()}
    return Evaluation(
        values={name: values[name] for name in metrics},
        signatures={name: signatures[name] for name in metrics if name in signatures},
        examples=len(examples),
        outputs=outputs,
        flagged=sum(bool(answer.flags) for answer in answers),
        seconds=time.perf_counter() - began,
        dropped=dropped or {},
        classes=_classes(outputs, references, tokens) if compared and resamples else None,
        groups=estimate_groups(chosen[compared[0]], outputs, references, group_names, resamples) if group_names else [],
    )


def _refuse_search_options(metrics: list[str], search: SearchKeywords, *, groups: bool) -> None:
    """Raise UserError for options of the search if nothing is decoded."""
    idle = ("batch_size", "log_probs")
    options = [name for name, value in search.items() if is_given(value) and name not in idle]
    options += ["groups"] if groups else []
    why = f"nothing is decoded for {', '.join(metrics) or 'no metric'}; leave it out"
    if options:
        raise UserError([f"{option}: {why}" for option in options])


def _references(generator: Generator, examples: list[Example]) -> References:
    """The references in the Unicode form of outputs: letters come back composed, however a file stores them."""
    joined = generator.target_tokenizer.joined
    return [tuple(joined([text]) for text in example.references) for example in examples]


def _likelihood_values(
    generator: Generator, examples: list[Example], metrics: list[str], batch_size: int | None, samples: int
) -> dict[str, Estimate]:
    chosen = [name for name in metrics if name in LIKELIHOOD_METRICS]
    if not chosen:
        return {}
    statistics = likelihood(generator, examples, batch_size)
    return {name: likelihood_estimate(statistics, name, samples) for name in chosen}


def _classes(outputs: list[str], references: References, tokens: str) -> Classes | None:
    """The confusion of classes, compared as exact_match compares texts; None if the targets are no classes."""
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


def _evaluate_language_model(
    generator: Generator,
    examples: list[Example],
    metrics: list[str],
    batch_size: int | None,
    dropped: dict[str, Any],
    samples: int,
) -> Evaluation:
    """Evaluate the probability of texts; nothing is decoded. The texts of a stream are its lines, in order."""
    if compared := [name for name in metrics if name not in LIKELIHOOD_METRICS]:
        raise UserError([f"metrics: {needs_answers(name)}" for name in compared])
    began, window = time.perf_counter(), generator.config.data.window
    statistics = likelihood(generator, examples, batch_size)
    unknown = [generator.target_tokenizer.unknown(example.references[0]) for example in examples]
    return Evaluation(
        values={name: likelihood_estimate(statistics, name, samples) for name in metrics},
        signatures={name: SIGNATURES[name] for name in metrics if name in SIGNATURES},
        examples=len(statistics),
        outputs=[],
        flagged=sum(map(bool, unknown)),
        seconds=time.perf_counter() - began,
        dropped=dropped,
        unit="texts" if window is None else f"windows of {window} tokens",
    )
