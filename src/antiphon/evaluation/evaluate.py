"""From examples to figures: decode, compare, say how sure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from antiphon.config.checks import needs_answers
from antiphon.data.pairs import Example
from antiphon.errors import UserError
from antiphon.evaluation.classes import Classes, class_names, compare_classes
from antiphon.evaluation.edit import References, words
from antiphon.evaluation.intervals import Estimate, Group, estimate, estimate_groups
from antiphon.evaluation.likelihood import OF_LOSS, SIGNATURES, likelihood, likelihood_estimate
from antiphon.evaluation.metrics import metric_for
from antiphon.inference.generator import Generator

__all__ = ["Evaluation", "evaluate_examples", "tidy_references"]

SAMPLES = 1000  # of the bootstrap


@dataclass(frozen=True)
class Evaluation:
    """Figures with their 95 % intervals, and what they were computed from."""

    values: dict[str, Estimate]
    signatures: dict[str, str]
    examples: int
    outputs: list[str]  # none if no metric asked for them
    flagged: int  # answers with a flag; of a language model, texts with symbols it does not know
    seconds: float
    dropped: dict[str, Any]
    unit: str = "examples"  # what `examples` counts, and what is drawn for the intervals
    classes: Classes | None = None  # if the targets are classes and something was decoded
    groups: list[Group] = field(default_factory=list)  # the first metric that compares, if groups were asked for


def evaluate_examples(
    generator: Generator,
    examples: list[Example],
    *,
    metrics: list[str],
    beam: int | None = None,
    length_penalty: float | None = None,
    no_repeat: int | None = None,
    joint: float | None = None,
    batch_size: int | None = None,
    shortlist: bool = False,
    groups: Sequence[str] | None = None,
    dropped: dict[str, Any] | None = None,
    samples: int = SAMPLES,
) -> Evaluation:
    """Decodes every source once, if a metric needs it, and compares with the best reference; 0 samples: no interval.

    `groups` names the group of each example.
    """
    compared = [name for name in metrics if name not in OF_LOSS]
    searched = {"beam": beam, "length_penalty": length_penalty, "no_repeat": no_repeat, "joint": joint}
    _refuse_idle_options(metrics, searched, shortlist=shortlist, groups=groups is not None)
    if generator.config.data.source is None:
        return _evaluate_texts(generator, examples, metrics, batch_size, dropped or {}, samples)
    began = time.perf_counter()
    sources = [example.source for example in examples] if compared else []
    answers = generator.generate(
        sources, beam=beam, length_penalty=length_penalty, no_repeat=no_repeat, joint=joint,
        batch_size=batch_size, shortlist=shortlist, log_probs=False, weights=False,
    )  # fmt: skip
    outputs = [answer.text for answer in answers]
    tokens = generator.config.data.target.tokens
    spoken = generator.target_tokenizer.joined  # letters come back composed, however a reference has them stored
    references = [tuple(spoken([text]) for text in example.references) for example in examples]
    chosen = {name: metric_for(name, tokens) for name in compared}
    values = {name: estimate(metric, outputs, references, samples=samples) for name, metric in chosen.items()}
    signatures = {name: metric.signature(references) for name, metric in chosen.items()}
    if len(compared) < len(metrics):
        found = likelihood(generator, examples, batch_size)
        values |= {name: likelihood_estimate(found, name, samples) for name in metrics if name in OF_LOSS}
        signatures |= {name: SIGNATURES[name] for name in metrics if name in SIGNATURES}
    return Evaluation(
        values={name: values[name] for name in metrics},
        signatures={name: signatures[name] for name in metrics if name in signatures},
        examples=len(examples),
        outputs=outputs,
        flagged=sum(bool(answer.flags) for answer in answers),
        seconds=time.perf_counter() - began,
        dropped=dropped or {},
        classes=_classes(outputs, references, tokens) if compared else None,
        groups=estimate_groups(chosen[compared[0]], outputs, references, groups, samples) if groups else [],
    )


def _refuse_idle_options(
    metrics: list[str], searched: dict[str, float | None], *, shortlist: bool, groups: bool
) -> None:
    """Where nothing is decoded, what belongs to decoding has no effect."""
    if any(name not in OF_LOSS for name in metrics):
        return
    options = {f"{name}: {value}": value is not None for name, value in searched.items()}
    options |= {"shortlist: given": shortlist, "groups: given": groups}
    why = f"but nothing is decoded for {', '.join(metrics) or 'no metric'}; leave it out"
    if problems := [f"{option}, {why}" for option, given in options.items() if given]:
        raise UserError(problems)


def _classes(outputs: list[str], references: References, tokens: str) -> Classes | None:
    """As exact_match compares them."""
    tidy = tidy_references(references, tokens)
    names = class_names(tidy)
    return None if names is None else compare_classes([_tidy(output, tokens) for output in outputs], tidy, names)


def tidy_references(references: References, tokens: str) -> References:
    """A model of words has no say in the width of the white space between them."""
    return [tuple(_tidy(text, tokens) for text in texts) for texts in references]


def _tidy(text: str, tokens: str) -> str:
    return " ".join(words(text)) if tokens == "words" else text


def _evaluate_texts(
    generator: Generator,
    examples: list[Example],
    metrics: list[str],
    batch_size: int | None,
    dropped: dict[str, Any],
    samples: int,
) -> Evaluation:
    """Of a language model; nothing is decoded. The texts of a stream are its lines, in order."""
    if compared := [name for name in metrics if name not in OF_LOSS]:
        raise UserError([f"metrics: {needs_answers(name)}" for name in compared])
    began, window = time.perf_counter(), generator.config.data.window
    found = likelihood(generator, examples, batch_size)
    unknown = [generator.target_tokenizer.unknown(example.references[0]) for example in examples]
    return Evaluation(
        values={name: likelihood_estimate(found, name, samples) for name in metrics},
        signatures={name: SIGNATURES[name] for name in metrics if name in SIGNATURES},
        examples=len(found),
        outputs=[],
        flagged=sum(map(bool, unknown)),
        seconds=time.perf_counter() - began,
        dropped=dropped,
        unit="texts" if window is None else f"windows of {window} tokens",
    )
