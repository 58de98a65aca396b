"""Flags: what to beware of in an answer."""
# T target steps, S source steps

from __future__ import annotations

from collections import Counter

import numpy as np

from antiphon.data.tokenizers import Tokenizer
from antiphon.search.hypothesis import Hypothesis
from antiphon.search.phrases import RequiredPhrases, contains

__all__ = [
    "ending_flags", "forbidden_flags", "missing_flags", "repetition_flags", "unattended_flags", "unknown_flags",
]  # fmt: skip

Phrases = tuple[tuple[int, ...], ...]
LOOP_TOKENS, LOOP_TIMES, LOOP_PERIOD = 8, 3, 6  # tokens in all, repetitions, and the longest phrase to look for
LITTLE, MANY = 0.1, 0.5  # attention to a source token over all steps; share of such tokens


def unknown_flags(side: str, unknown: list[str]) -> list[str]:
    """A flag for symbols that are not in the vocabulary."""
    if not unknown:
        return []
    counts = ", ".join(f"{symbol!r} x {count}" for symbol, count in Counter(unknown).most_common(10))
    return [f"unknown symbols in the {side}: {counts}"]


def ending_flags(best: Hypothesis, max_length: int) -> list[str]:
    """A flag if the answer has no </s>: it was cut, or constraints and model left no token."""
    length = len(best.tokens)
    if best.finished:
        return []
    if length >= max_length:
        return [f"maximum length: stopped after {length} tokens without an end"]
    return [f"dead end: stopped after {length} tokens without an end, because no token was possible"]


def repetition_flags(tokens: tuple[int, ...]) -> list[str]:
    """A flag if a phrase is repeated without a break: at least 3 times and 8 tokens in all."""
    for period in range(1, LOOP_PERIOD + 1):
        run = 0
        for position in range(period, len(tokens)):
            run = run + 1 if tokens[position] == tokens[position - period] else 0
            if run + period >= max(LOOP_TOKENS, LOOP_TIMES * period):
                return [f"repetition: {'a token' if period == 1 else f'{period} tokens'} again and again"]
    return []


def unattended_flags(weights: np.ndarray, source: list[str]) -> list[str]:
    """A flag if half of the source [S] got hardly any attention in weights [T, S]; its </s> does not count."""
    totals = weights[:, : len(source) - 1].sum(axis=0)
    lost = [symbol for symbol, total in zip(source, totals, strict=False) if total < LITTLE]
    if not len(weights) or len(totals) < 2 or len(lost) < MANY * len(totals):
        return []
    named = " ".join(lost[:10]) + (" …" if len(lost) > 10 else "")
    return [f"source not attended: {len(lost)} of {len(totals)} tokens were hardly attended to ({named})"]


def missing_flags(best: Hypothesis, require: Phrases, target: Tokenizer) -> list[str]:
    """A flag if required phrases are not in the answer."""
    missing = RequiredPhrases(require).missing(best.tokens)
    return [f"required: missing: {', '.join(repr(target.decode(phrase)) for phrase in missing)}"] if missing else []


def forbidden_flags(best: Hypothesis, forbid: Phrases, target: Tokenizer) -> list[str]:
    """A flag if forbidden phrases are in the answer: in a prefix, or split into other tokens."""
    text = f" {target.decode(best.tokens)} "
    names = [(phrase, target.decode(phrase)) for phrase in forbid]
    found = [name for phrase, name in names if contains(best.tokens, phrase) or f" {name} " in text]
    return [f"forbidden: in the answer: {', '.join(map(repr, found))}"] if found else []
