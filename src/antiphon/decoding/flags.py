"""What to beware of in an answer."""
# T target steps, S source steps

from __future__ import annotations

import numpy as np

from antiphon.decoding.hypothesis import Hypothesis
from antiphon.decoding.required import Phrases, contains

__all__ = ["ending_flags", "forbidden_flags", "missing_flags", "repetition_flags", "unattended_flags"]

LOOP, TIMES, PERIOD = 8, 3, 6  # tokens in all, repetitions, and the longest phrase that is looked for
LITTLE, MANY = 0.1, 0.5  # attention a source token gets in all; share of such tokens


def ending_flags(best: Hypothesis, longest: int) -> list[str]:
    """No </s>: the answer was cut at its longest, or the rules and the model left nothing to go on with."""
    said = len(best.tokens)
    if best.finished:
        return []
    if said >= longest:
        return [f"maximum length: stopped after {said} tokens without an end"]
    return [f"no way on: stopped after {said} tokens without an end, because no token was possible"]


def repetition_flags(tokens: tuple[int, ...]) -> list[str]:
    """A phrase that is said again and again without a break: at least 3 times and 8 tokens in all."""
    for period in range(1, PERIOD + 1):
        run = 0
        for place in range(period, len(tokens)):
            run = run + 1 if tokens[place] == tokens[place - period] else 0
            if run + period >= max(LOOP, TIMES * period):
                return [f"repetition: {'a token' if period == 1 else f'{period} tokens'} again and again"]
    return []


def unattended_flags(weights: np.ndarray, source: list[str]) -> list[str]:
    """Half of the source [S] hardly looked at in all steps of weights [T, S]; its </s> does not count."""
    seen = weights[:, : len(source) - 1].sum(axis=0)
    lost = [symbol for symbol, sum_ in zip(source, seen, strict=False) if sum_ < LITTLE]
    if not len(weights) or len(seen) < 2 or len(lost) < MANY * len(seen):
        return []
    named = " ".join(lost[:10]) + (" …" if len(lost) > 10 else "")
    return [f"source not attended: {len(lost)} of {len(seen)} tokens were hardly looked at ({named})"]


def missing_flags(best: Hypothesis, require: tuple[tuple[int, ...], ...], named: list[str]) -> list[str]:
    """Required phrases that are not in the answer after all."""
    missing = Phrases(require).missing(best.tokens)
    lost = [name for phrase, name in zip(require, named, strict=True) if phrase in missing]
    return [f"required: not said: {', '.join(map(repr, lost))}"] if lost else []


def forbidden_flags(best: Hypothesis, text: str, forbid: tuple[tuple[int, ...], ...], named: list[str]) -> list[str]:
    """Forbidden phrases that are in the answer after all: in a prefix, or cut into other tokens."""
    words = f" {text} "
    both = zip(forbid, named, strict=True)
    said = [name for phrase, name in both if contains(best.tokens, phrase) or f" {name} " in words]
    return [f"forbidden: said all the same: {', '.join(map(repr, said))}"] if said else []
