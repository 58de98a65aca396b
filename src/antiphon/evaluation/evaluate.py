"""From examples to figures: decode, compare, say how sure."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from antiphon.config.texts import needs_answers
from antiphon.decoding.generator import Generator
from antiphon.errors import UserError
from antiphon.evaluation.bootstrap import Estimate, estimate
from antiphon.evaluation.likelihood import OF_LOSS, SIGNATURES, likelihood, likelihood_estimate
from antiphon.evaluation.metrics import metric_for
from antiphon.sources.pairs import Example

__all__ = ["Evaluation", "evaluate_examples"]

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


def evaluate_examples(
    generator: Generator,
    examples: list[Example],
    *,
    metrics: list[str],
    beam: int | None = None,
    batch_size: int | None = None,
    shortlist: bool = False,
    dropped: dict[str, Any] | None = None,
    samples: int = SAMPLES,
) -> Evaluation:
    """Decodes every source once, if a metric needs it, and compares with the best reference; 0 samples: no interval."""
    compared = [name for name in metrics if name not in OF_LOSS]
    given = [*([f"beam: {beam}"] if beam is not None else []), *(["shortlist: given"] if shortlist else [])]
    if given and not compared:
        why = f"but nothing is decoded for {', '.join(metrics) or 'no metric'}; leave it out"
        raise UserError([f"{one}, {why}" for one in given])
    if generator.config.data.source is None:
        return _evaluate_texts(generator, examples, metrics, batch_size, dropped or {}, samples)
    began = time.perf_counter()
    sources = [example.source for example in examples] if compared else []
    answers = generator.generate(
        sources, beam=beam, batch_size=batch_size, shortlist=shortlist, log_probs=False, weights=False
    )
    outputs = [answer.text for answer in answers]
    references = [example.references for example in examples]
    values: dict[str, Estimate] = {}
    signatures = {name: SIGNATURES[name] for name in metrics if name in SIGNATURES}
    if len(compared) < len(metrics):
        found = likelihood(generator, examples, batch_size)
        values |= {name: likelihood_estimate(found, name, samples) for name in metrics if name in OF_LOSS}
    for name in compared:
        metric = metric_for(name, generator.config.data.target.tokens)
        values[name] = estimate(metric, outputs, references, samples=samples)
        signatures[name] = metric.signature(references)
    return Evaluation(
        values={name: values[name] for name in metrics},
        signatures=signatures,
        examples=len(examples),
        outputs=outputs,
        flagged=sum(bool(answer.flags) for answer in answers),
        seconds=time.perf_counter() - began,
        dropped=dropped or {},
    )


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
