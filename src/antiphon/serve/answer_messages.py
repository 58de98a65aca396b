"""Answers as the API returns them: scores, tokens, words, attention and search trees in JSON."""
# T target steps, S source steps, L layers, N heads

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from antiphon.inference.generation import AttentionHeads, Generation, SourceSpan
from antiphon.inference.generator import Generator, PreparedText
from antiphon.inference.streaming import WatchedAnswer
from antiphon.inference.words import words_read, words_written
from antiphon.serve.frames import Message

__all__ = ["OF_TOKENS", "answer_message", "span_message", "watched_message"]

OF_TOKENS = ("tokens", "token_ids", "log_probs")  # lists with a value for each token
MOST_WEIGHTS = 1_000_000  # of all layers and heads in one answer
DIGITS = 4  # decimal places of a weight
KINDS = ("cross", "own", "source")


def answer_message(answer: Generation, returned: set[str], generator: Generator, text: PreparedText) -> Message:
    """An answer to a text, with the fields that a request wants."""
    message: Message = {"text": answer.text, "score": answer.score, "flags": list(answer.flags)}
    shown = [name for name in OF_TOKENS if name in returned]
    message |= {name: getattr(answer, name) for name in shown}
    if not returned.isdisjoint(("attention", "heads")):
        seen = _seen(answer, generator, text)
        message |= {"attention": _attention(answer, seen)} if "attention" in returned else {}
        message |= {"heads": _heads(answer, seen, message["flags"])} if "heads" in returned else {}
    if "usage" in returned:
        message["usage"] = {"read": len(answer.source_tokens), "written": len(answer.tokens)}
    if len(answer.alternatives) > 1:
        message["alternatives"] = [
            {"text": one.text, "score": one.score, **{name: getattr(one, name) for name in shown}}
            for one in answer.alternatives
        ]
    return message


def watched_message(watched: WatchedAnswer, returned: set[str], generator: Generator, text: PreparedText) -> Message:
    """An answer with the tree of its search: a list, for a long text is answered in parts."""
    message = answer_message(watched.answer, returned, generator, text)
    return {**message, "trees": [tree.as_dict() for tree in watched.trees]} if "tree" in returned else message


def _rounded(values: np.ndarray) -> list[Any]:
    """An array as nested lists with four decimal places."""
    nested: list[Any] = values.astype(np.float64).round(DIGITS).tolist()
    return nested


def _seen(answer: Generation, generator: Generator, text: PreparedText) -> Message:
    """The tokens on both sides of an attention, and the words that they make."""
    return {
        "source_tokens": answer.source_tokens,
        "tokens": answer.tokens,
        "spans": [span_message(span) for span in answer.spans],
        "source_words": [asdict(word) for word in words_read(generator, text.parts)],
        "words": [asdict(word) for word in words_written(generator.codec.target, answer.token_ids)],
    }


def span_message(span: SourceSpan) -> Message:
    """A span without the path of a file, which is the server's own; a video is a row of frames."""
    grid = (1, span.last - span.first + 1) if span.kind == "frames" else span.grid
    return {**asdict(span), "grid": grid, "text": span.text if span.kind == "text" else None}


def _attention(answer: Generation, seen: Message) -> Message:
    weights = None if answer.weights is None else _rounded(answer.weights)
    message = {**seen, "weights": weights}
    return message if answer.copied is None else {**message, "copied": answer.copied}


def _heads(answer: Generation, seen: Message, flags: list[str]) -> Message | None:
    """Every layer and head; None, with a flag, if these are too many numbers, or the text was empty."""
    heads = answer.heads or AttentionHeads()
    found: Sequence[tuple[str, np.ndarray | None]] = [(kind, getattr(heads, kind)) for kind in KINDS]
    size = sum(array.size for _, array in found if array is not None)
    if size > MOST_WEIGHTS:
        flags.append(
            f"heads: {size:,} weights of all layers and heads are more than the {MOST_WEIGHTS:,} that are returned; "
            "shorten the input"
        )
        return None
    return {**seen, **{kind: None if array is None else _rounded(array) for kind, array in found}}
