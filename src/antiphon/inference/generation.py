"""What an answer is made of."""
# T target steps, S source steps, L layers, N heads

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from antiphon.search.trace import SearchTree

__all__ = ["Alternative", "Choice", "Copies", "Generation", "Heads", "Part", "Scored", "TokenTree", "joined"]


@dataclass(frozen=True)
class Alternative:
    """Another answer to the same source."""

    text: str
    tokens: list[str]
    score: float
    log_probs: list[float]


@dataclass(frozen=True)
class Heads:
    """Where the model looked, for every layer and head and without padding; None where it has no such attention.

    A row belongs to the token that was written there; a language model has said its prompt, too. The columns of `own`
    are what was read before: <s> and all but the last.
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
        """The mean of `cross` over all layers and heads [T, S].

        Which layer looks at the right place differs from model to model, and so the last one alone may miss it.
        """
        return None if self.cross is None else np.asarray(self.cross.mean(axis=(0, 1)))


@dataclass(frozen=True)
class Copies:
    """What a model that copies took from its source, token by token [T]."""

    shares: list[float]  # the probability that the token, being what it is, was copied: p(copied, y) / p(y)
    positions: list[int]  # from where, if it was: the likeliest position of the source


@dataclass(frozen=True)
class Part:
    """One of the sources of an answer, and which of its `source_tokens` are its."""

    source: int  # its number
    kind: str  # text, image, audio, features or frames
    text: str  # its cell: the text, or the path of the file
    first: int
    last: int
    grid: tuple[int, int] | None = None  # rows and columns of a picture's positions


@dataclass(frozen=True)
class Generation:
    """An answer, why, and what to beware of."""

    text: str  # a language model's is the prompt and what it wrote
    tokens: list[str]  # what was written, with </s> at the end if the answer is finished
    score: float  # sum of log_probs / length ^ length_penalty
    log_probs: list[float]  # one a token
    source_tokens: list[str]  # what was read: the source, or a language model's prompt; names of a file's positions
    weights: np.ndarray | None = None  # attention to the source [T, S], of many heads the mean; None: no such, or parts
    looks: Heads | None = None  # every layer and head, if asked for
    copied: list[float] | None = None  # how probable it is that each token was copied; None: as weights, or no copying
    flags: list[str] = field(default_factory=list)
    alternatives: list[Alternative] = field(default_factory=list)  # the n best, this one first
    parts: list[Part] = field(default_factory=list)  # each source; a language model has none


@dataclass(frozen=True)
class Choice:
    """A token that could stand at a position, and the answer that would follow."""

    token: str
    probability: float  # after what stands before
    text: str


@dataclass(frozen=True)
class TokenTree:
    """A search tree and the symbol of each branch."""

    tree: SearchTree
    symbols: list[str]
    rerankers: list[str]  # those that order the answers after the search


@dataclass(frozen=True)
class Scored:
    """How probable a given target is: log p(y | x) and its parts; a language model has no source."""

    source: str
    target: str
    log_prob: float
    tokens: list[str]
    log_probs: list[float]
    flags: list[str]


def joined(parts: list[Generation], length_penalty: float) -> Generation:
    """One answer to a text that was read in parts; the n-th alternative joins the n-th of each."""
    if len(parts) == 1:
        return parts[0]
    flags = [f"split: too long to be read at once; answered in {len(parts)} parts"]
    spoken = [part for part in parts if part.alternatives]  # of nothing there is no answer
    others = zip(*(part.alternatives for part in spoken), strict=False)
    alternatives = [_one(list(each), length_penalty) for each in others]
    whole = _one(parts, length_penalty)
    return Generation(
        text=whole.text,
        tokens=whole.tokens,
        score=whole.score,
        log_probs=whole.log_probs,
        source_tokens=[token for part in parts for token in part.source_tokens],
        flags=list(dict.fromkeys([*flags, *(flag for part in parts for flag in part.flags)])),
        alternatives=alternatives,
        parts=_shifted(parts),
    )


def _shifted(parts: list[Generation]) -> list[Part]:
    """The pieces of each part, which stands behind the part before it."""
    found, before = [], 0
    for part in parts:
        found += [replace(piece, first=piece.first + before, last=piece.last + before) for piece in part.parts]
        before += len(part.source_tokens)
    return found


def _one(parts: list[Generation] | list[Alternative], length_penalty: float) -> Alternative:
    log_probs = [value for part in parts for value in part.log_probs]
    return Alternative(
        text=" ".join(part.text for part in parts if part.text),
        tokens=[token for part in parts for token in part.tokens],
        score=sum(log_probs) / max(1, len(log_probs)) ** length_penalty,
        log_probs=log_probs,
    )
