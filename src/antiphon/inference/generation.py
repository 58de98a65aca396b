"""The results of a Generator: answers, their attention and scores."""
# T target steps, S source steps, L layers, N heads

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from antiphon.search.hypothesis import normalised_score

__all__ = [
    "Alternative", "AttentionHeads", "Copies", "Generation", "ScoredTarget", "Scores", "SourceSpan",
    "TokenAlternative", "join_parts",
]  # fmt: skip

RECORDED = ("text", "tokens", "score", "log_probs")  # of an alternative, in JSON


@dataclass(frozen=True)
class Alternative:
    """One of the n best answers to a source."""

    text: str
    tokens: list[str]
    score: float
    log_probs: list[float]
    token_ids: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class AttentionHeads:
    """The attention of every layer and head, without padding; None where the model has no such attention.

    A row belongs to the token that was written there; a language model has rows for its prompt, too. The columns of
    `own` are the decoder's inputs: <s> and all tokens but the last.
    """

    cross: np.ndarray | None = None  # to the source [L, N, T, S]
    own: np.ndarray | None = None  # to what was written before [L, N, T, T]
    source: np.ndarray | None = None  # of the source to itself [L, N, S, S]

    @property
    def kinds(self) -> list[str]:
        """The kinds of attention that the model has."""
        return [name for name in ("cross", "own", "source") if getattr(self, name) is not None]

    @property
    def mean(self) -> np.ndarray | None:
        """The mean of `cross` over all layers and heads [T, S]; which layer aligns best differs from model to model."""
        return None if self.cross is None else np.asarray(self.cross.mean(axis=(0, 1)))


@dataclass(frozen=True)
class Copies:
    """The tokens that a model copied from its source, step by step [T]."""

    shares: list[float]  # the probability that the token y was copied: p(copied, y) / p(y)
    positions: list[int]  # the most probable source position it was copied from


@dataclass(frozen=True)
class SourceSpan:
    """The positions of one source among the `source_tokens` of an answer."""

    source: int  # its index
    kind: str  # text, image, audio, features or frames
    text: str  # the text, or the path of the file
    first: int
    last: int
    grid: tuple[int, int] | None = None  # rows and columns of the positions of an image


@dataclass(frozen=True, repr=False)
class Generation:
    """An answer with its scores, attention and flags."""

    text: str  # of a language model: the prompt and its continuation
    tokens: list[str]  # that were written, with </s> at the end if the answer is finished
    score: float  # sum of log_probs / length ^ length_penalty
    log_probs: list[float]  # one a token
    source_tokens: list[str]  # that were read: the source, or the prompt of a language model; for files, position names
    weights: np.ndarray | None = None  # attention to the source [T, S], the mean of all heads; None: none, or split
    heads: AttentionHeads | None = None  # every layer and head, with `heads=True`
    copied: list[float] | None = None  # the probability that each token was copied; None: as weights, or no copying
    flags: list[str] = field(default_factory=list)
    alternatives: list[Alternative] = field(default_factory=list)  # the n best, this one first
    spans: list[SourceSpan] = field(default_factory=list)  # one for each source; a language model has none
    token_ids: list[int] = field(default_factory=list)  # of `tokens`

    def as_dict(self, *, weights: bool) -> dict[str, Any]:
        """The answer for JSON, with its attention and copies if `weights`."""
        record: dict[str, Any] = {
            "text": self.text,
            "tokens": self.tokens,
            "score": self.score,
            "log_probs": self.log_probs,
            "flags": self.flags,
            "alternatives": [{name: getattr(one, name) for name in RECORDED} for one in self.alternatives],
        }
        if weights and self.weights is not None:
            record |= {"source_tokens": self.source_tokens, "weights": self.weights.tolist()}
        if weights and self.copied is not None:
            record |= {"copied": self.copied}
        return record

    def __repr__(self) -> str:
        flags = f", flags={self.flags}" if self.flags else ""
        return f"Generation({self.text!r}, score={self.score:.4g}{flags})"

    def _repr_html_(self) -> str:
        # By name: plots stand above this module, and only a notebook needs one.
        return str(importlib.import_module("antiphon.plots.notebook_views").generation_html(self))


@dataclass(frozen=True)
class TokenAlternative:
    """A token that could stand at a position of an answer, and the answer with it."""

    token: str
    probability: float  # given the tokens before
    text: str
    token_id: int
    log_prob: float
    token_ids: list[int]  # of the whole answer


@dataclass(frozen=True)
class ScoredTarget:
    """log p(y | x) of a given target, whole and token by token; a language model has no source."""

    source: str
    target: str
    log_prob: float
    tokens: list[str]
    log_probs: list[float]
    flags: list[str]


@dataclass(frozen=True)
class Scores:
    """The scored targets of a file or table, and what was left out."""

    targets: list[ScoredTarget]
    lines: list[int]  # of each in its file, or its row in memory, from 1
    dropped: dict[str, Any]  # the lines that could not be used, by reason


def join_parts(parts: list[Generation], length_penalty: float) -> Generation:
    """The answer to a text that was split; the n-th alternative joins the n-th of each part."""
    if len(parts) == 1:
        return parts[0]
    flags = [f"split: too long to be read at once; answered in {len(parts)} parts"]
    answered = [part for part in parts if part.alternatives]  # an empty part has none
    whole = _concatenate(parts, length_penalty)
    return Generation(
        text=whole.text,
        tokens=whole.tokens,
        score=whole.score,
        log_probs=whole.log_probs,
        source_tokens=[token for part in parts for token in part.source_tokens],
        flags=list(dict.fromkeys([*flags, *(flag for part in parts for flag in part.flags)])),
        alternatives=[
            _concatenate(list(row), length_penalty)
            for row in zip(*(part.alternatives for part in answered), strict=False)
        ],
        spans=_shift_spans(parts),
        token_ids=whole.token_ids,
    )


def _shift_spans(parts: list[Generation]) -> list[SourceSpan]:
    """The spans of each part, moved behind the tokens of the parts before it."""
    spans, before = [], 0
    for part in parts:
        spans += [replace(span, first=span.first + before, last=span.last + before) for span in part.spans]
        before += len(part.source_tokens)
    return spans


def _concatenate(parts: list[Generation] | list[Alternative], length_penalty: float) -> Alternative:
    log_probs = [value for part in parts for value in part.log_probs]
    return Alternative(
        text=" ".join(part.text for part in parts if part.text),
        tokens=[token for part in parts for token in part.tokens],
        score=normalised_score(sum(log_probs), len(log_probs), length_penalty),
        log_probs=log_probs,
        token_ids=[token for part in parts for token in part.token_ids],
    )
