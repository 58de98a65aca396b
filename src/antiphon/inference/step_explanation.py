"""One decoder step as a result: its parts as arrays with names, and as JSON of a bounded size."""
# T decoder inputs, K keys: source and inputs, S source steps, D size of a vector

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["CandidateToken", "StepExplanation", "StepPart", "Sublayer"]

SHOWN = 64  # dimensions of each vector in JSON, unless more are chosen
MOST_VALUES = 20_000  # of a part in JSON, unless all dimensions are chosen
DIGITS = 5  # significant ones in JSON
LABELS = ("source", "input", "key", "layer", "vocabulary")  # axes that are no dimensions of a vector
Array = np.ndarray


@dataclass(frozen=True)
class StepPart:
    """One quantity of the step.

    Its axes: `source` counts `source_tokens`; `input` counts `inputs`; `key` counts what self-attention sees (the
    source, if the network itself has read it, then the inputs); `layer`; `vocabulary`. Any other axis, always the last,
    is the space of a vector: e embeddings, h encoder states, s decoder states, cell those of an LSTM, o outputs.
    """

    name: str
    symbol: str
    formula: str  # "" for an input of the step
    axes: tuple[str, ...]
    values: Array

    @property
    def space(self) -> str | None:
        """The space of its vectors; None for numbers."""
        return self.axes[-1] if self.axes and self.axes[-1] not in LABELS else None


@dataclass(frozen=True)
class Sublayer:
    """One part of a Transformer block: self-attention, attention to the source, or the feed-forward network."""

    layer: int  # from 1
    kind: str  # own, cross or feedforward
    formula: str  # of f
    residual: str  # how f and the residual stream x are joined
    before: Array  # the residual stream [D]
    output: Array  # what is added [D]
    after: Array  # the residual stream [D], normalised in post order
    weights: Array | None = None  # of each head: to the keys [N, K], or to the source [N, S]


@dataclass(frozen=True)
class CandidateToken:
    """A token that could be written in the step."""

    token: str
    token_id: int
    log_prob: float
    copied: float | None = None  # the share of its probability that comes from copying

    def as_dict(self) -> dict[str, Any]:
        """The token for JSON."""
        found = {"token": self.token, "token_id": self.token_id, "log_prob": rounded(self.log_prob)}
        found["probability"] = rounded(math.exp(self.log_prob))
        return found if self.copied is None else {**found, "copied": rounded(self.copied)}


@dataclass(frozen=True)
class StepExplanation:
    """One step of a decoder, worked out: `parts` in the order of the computation.

    The weighted states are the rows of `states` times `weights`; their sum is `context`.
    """

    kind: str  # of the model: encoder-decoder, language-model, concatenated or tagger
    decoder: str  # bahdanau, luong, plain, transformer or labels
    position: int  # of the token in the answer, from 0
    step: int  # the index in `inputs` of the token that the step reads; a language model counts its prompt
    token: str  # that is written
    token_id: int
    tokens: list[str]  # the whole answer
    inputs: list[str]  # of the decoder: its start, the prompt, and all tokens but the last
    source_tokens: list[str]  # one for each state, or those that the network itself has read
    config: str  # the YAML that makes this drawing
    notes: list[str]
    parts: list[StepPart]
    log_probs: Array  # of the whole vocabulary [V]
    most_probable: list[CandidateToken]
    layers: list[Sublayer] = field(default_factory=list)  # of a Transformer
    layer: int | None = None  # the layer and head of which the parts of attention are, from 1
    head: int | None = None
    spaces: dict[str, Array] = field(default_factory=dict)  # vectors whose variance orders the dimensions [n, D]

    def __getitem__(self, name: str) -> Array:
        """The values of a part."""
        for part in self.parts:
            if part.name == name:
                return part.values
        raise KeyError(f"this step has no part {name!r}, only {', '.join(part.name for part in self.parts)}")

    def __contains__(self, name: object) -> bool:
        return any(part.name == name for part in self.parts)

    @property
    def log_prob(self) -> float:
        """log p of the token that is written."""
        return float(self.log_probs[self.token_id])

    def as_dict(self, dimensions: int | None = SHOWN) -> dict[str, Any]:
        """The step for JSON, with five significant digits; null stands for -∞, the score of a masked position.

        Of each vector at most `dimensions` values are in it, those with the largest share in the first two principal
        components, ordered by the first; None: all, in their own order. Norms are those of whole vectors.
        """
        longest = max((part.values.size // part.values.shape[-1] for part in self.parts if part.space), default=1)
        shown = None if dimensions is None else min(dimensions, max(1, MOST_VALUES // longest))
        kept = {name: order_dimensions(vectors, shown) for name, vectors in self.spaces.items()}
        plain = ("kind", "decoder", "position", "step", "token", "token_id", "tokens", "inputs", "source_tokens")
        return {
            **{name: getattr(self, name) for name in (*plain, "config", "notes", "layer", "head")},
            "log_prob": rounded(self.log_prob),
            "parts": [part_dict(part, kept) for part in self.parts if part.space or is_small(part)],
            "layers": [sublayer_dict(sublayer) for sublayer in self.layers],
            "dimensions": {
                name: {"size": vectors.shape[-1], "shown": kept[name].tolist()} for name, vectors in self.spaces.items()
            },
            "most_probable": [candidate.as_dict() for candidate in self.most_probable],
        }


def is_small(part: StepPart) -> bool:
    """False for a matrix of many steps, and for a value of each token of the vocabulary."""
    return "vocabulary" not in part.axes and part.values.size <= MOST_VALUES


def part_dict(part: StepPart, kept: dict[str, Array]) -> dict[str, Any]:
    """A part for JSON; vectors have their chosen dimensions and the norms of the whole."""
    found = {"name": part.name, "symbol": part.symbol, "formula": part.formula, "axes": list(part.axes)}
    if part.space is None:
        return {**found, "values": rounded(part.values)}
    values = part.values[..., kept[part.space]]
    return {**found, "values": rounded(values), "norms": rounded(np.linalg.norm(part.values, axis=-1))}


def sublayer_dict(sublayer: Sublayer) -> dict[str, Any]:
    """A sublayer for JSON: norms of its vectors, and the weights of all heads."""
    norms = {name: rounded(np.linalg.norm(getattr(sublayer, name))) for name in ("before", "output", "after")}
    known = {name: getattr(sublayer, name) for name in ("layer", "kind", "formula", "residual")} | {"norms": norms}
    return known if sublayer.weights is None else {**known, "weights": rounded(sublayer.weights)}


def rounded(values: Any) -> Any:  # noqa: ANN401 (a number, or nested lists of the shape of an array)
    """Numbers with five significant digits; None for those that are infinite or NaN."""
    if np.ndim(values):
        return [rounded(value) for value in values]
    number = float(values)
    return float(f"{number:.{DIGITS}g}") if math.isfinite(number) else None


def order_dimensions(vectors: Array, count: int | None) -> Array:
    """The indices of `count` dimensions of vectors [n, D]; None: all, in their own order.

    Those with the largest share of the variance in the plane of the first two principal components, ordered by their
    loading in the first: dimensions that rise and fall together are neighbours.
    """
    size = vectors.shape[-1]
    if count is None:
        return np.arange(size)
    centred = np.asarray(vectors, np.float64) - vectors.mean(axis=0)
    _, strengths, loadings = np.linalg.svd(centred, full_matrices=False)  # [k], [k, D]
    share = ((strengths[:2, None] * loadings[:2]) ** 2).sum(axis=0)
    best = np.sort(np.argsort(-share, kind="stable")[:count])
    # The sign of a component is arbitrary: its largest loading counts as positive.
    first = loadings[0] * np.sign(loadings[0][np.argmax(np.abs(loadings[0]))] or 1.0)
    return best[np.argsort(-first[best], kind="stable")]
