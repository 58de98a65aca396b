"""From examples to figures: decode, compare, say how sure."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from antiphon.decoding.generator import Generator
from antiphon.evaluation.bootstrap import Estimate, estimate, estimate_ratio
from antiphon.evaluation.metrics import metric_for
from antiphon.sources.pairs import Example

__all__ = ["Evaluation", "evaluate_examples", "loss_estimate", "perplexity"]

SAMPLES = 1000  # of the bootstrap
OF_LOSS = ("loss", "perplexity")


@dataclass(frozen=True)
class Evaluation:
    """Figures with their 95 % intervals, and what they were computed from."""

    values: dict[str, Estimate]
    signatures: dict[str, str]
    examples: int
    outputs: list[str]  # none if no metric asked for them
    flagged: int  # answers with a flag
    seconds: float
    dropped: dict[str, Any]


def evaluate_examples(
    generator: Generator,
    examples: list[Example],
    *,
    metrics: list[str],
    beam: int | None = None,
    batch_size: int | None = None,
    dropped: dict[str, Any] | None = None,
    samples: int = SAMPLES,
) -> Evaluation:
    """Decodes every source once, if a metric needs it, and compares with the best reference; 0 samples: no interval."""
    began = time.perf_counter()
    compared = [name for name in metrics if name not in OF_LOSS]
    sources = [example.source for example in examples] if compared else []
    answers = generator.generate(sources, beam=beam, batch_size=batch_size, weights=False)
    outputs = [answer.text for answer in answers]
    references = [example.references for example in examples]
    values: dict[str, Estimate] = {}
    signatures: dict[str, str] = {}
    if len(compared) < len(metrics):
        loss = loss_estimate(generator, examples, batch_size, samples)
        values |= {"loss": loss, "perplexity": Estimate(*(perplexity(x) for x in (loss.value, loss.low, loss.high)))}
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


def loss_estimate(
    generator: Generator, examples: list[Example], batch_size: int | None = None, samples: int = SAMPLES
) -> Estimate:
    """-log p per target token (</s> counts), over every reference."""
    pairs = [(example.source, reference) for example in examples for reference in example.references]
    scored = generator.score(pairs, batch_size)
    totals, counts = [-one.log_prob for one in scored], [float(len(one.log_probs)) for one in scored]
    return estimate_ratio(totals, counts, samples=samples)


def perplexity(loss: float) -> float:
    """exp(loss per token)"""
    return math.exp(loss) if loss < 700 else math.inf
