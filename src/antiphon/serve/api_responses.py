"""Responses of the API, as its schema describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from antiphon.inference.trace_record import TraceRecord
from antiphon.serve.frames import Message

__all__ = [
    "AlternativesResponse", "ErrorResponse", "GenerateResponse", "InfoResponse", "MapResponse", "ModelList",
    "OcclusionResponse", "RunsResponse", "ScoreResponse", "SearchResponse", "SourceResponse", "StepResponse",
]  # fmt: skip


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow", protected_namespaces=())


class _Answered(_Open):
    """`update` is that of the training after which the weights were saved; null: unknown, or several models."""

    model: str
    update: int | None


class OneWord(_Open):
    """A word: the indices of its first and last token, and its text."""

    first: int
    last: int
    text: str


class OneSpan(_Open):
    """The positions of one source among `source_tokens`; of an image and a video also their rows and columns."""

    source: int
    kind: str
    first: int
    last: int
    grid: tuple[int, int] | None
    text: str | None


class _Seen(_Open):
    source_tokens: list[str]
    tokens: list[str]
    spans: list[OneSpan]
    source_words: list[OneWord]
    words: list[OneWord]


class OneAttention(_Seen):
    """The mean of all layers and heads: a row for each token, a column for each source token."""

    weights: list[list[float]] | None
    copied: list[float] | None = None


class AllHeads(_Seen):
    """The attention of each layer and head, with four digits; null where the model has none of this kind.

    `cross` is that of the answer to the source, `own` that of the answer to what was written before (its columns begin
    with <s>; a language model has rows and columns for its prompt, too), `source` that of the source to itself.
    """

    cross: list[list[list[list[float]]]] | None
    own: list[list[list[list[float]]]] | None
    source: list[list[list[list[float]]]] | None


class OtherAnswer(_Open):
    """One of the n best answers."""

    text: str
    score: float | None
    tokens: list[str] | None = None
    token_ids: list[int] | None = None
    log_probs: list[float | None] | None = None


class Output(OtherAnswer):
    """An answer; `return` adds fields, and several answers are in `alternatives`, this one first."""

    flags: list[str]
    attention: OneAttention | None = None
    heads: AllHeads | None = None
    trees: list[TraceRecord] | None = None
    alternatives: list[OtherAnswer] | None = None


class GenerateResponse(_Answered):
    """Answers in the shape and order of the inputs."""

    outputs: Output | list[Output]


class ScoredOutput(_Open):
    """log p of a target and of each of its tokens."""

    target: str
    log_prob: float | None
    tokens: list[str]
    log_probs: list[float | None]
    flags: list[str]


class ScoreResponse(_Answered):
    """Scores in the shape and order of the targets."""

    outputs: ScoredOutput | list[ScoredOutput]


class OneAlternative(_Open):
    """A token that could stand at the position, and the whole answer with it: its text and the ids of its tokens."""

    token: str
    token_id: int
    probability: float
    log_prob: float
    text: str
    token_ids: list[int]


class AlternativesResponse(_Answered):
    """Tokens, the most probable first."""

    alternatives: list[OneAlternative]


class SearchResponse(_Answered):
    """The answer with `trees`, one for each part of the text."""

    output: Output


class OneQuantity(_Open):
    """A quantity of the step: nested lists of numbers, as many as there are axes; null stands for -∞."""

    name: str
    symbol: str
    formula: str
    axes: list[str]
    values: Any
    norms: Any = None


class OneSublayer(_Open):
    """A part of a block of a Transformer; `weights` are those of each head."""

    layer: int
    kind: Literal["own", "cross", "feedforward"]
    formula: str
    residual: str
    norms: dict[str, float | None]
    weights: list[list[float | None]] | None = None


class OneSpace(_Open):
    """The size of the vectors of a space, and the dimensions that are shown, in their order."""

    size: int
    shown: list[int]


class OneCandidate(_Open):
    """A token that could be written; `copied` is the share of its probability that comes from copying."""

    token: str
    token_id: int
    log_prob: float | None
    probability: float | None
    copied: float | None = None


class StepResponse(_Answered):
    """The step, worked out; docs/explaining.md lists the parts of each decoder."""

    kind: str
    decoder: str
    position: int
    step: int
    token: str
    token_id: int
    log_prob: float | None
    tokens: list[str]
    inputs: list[str]
    source_tokens: list[str]
    config: str
    notes: list[str]
    parts: list[OneQuantity]
    layers: list[OneSublayer]
    layer: int | None
    head: int | None
    dimensions: dict[str, OneSpace]
    most_probable: list[OneCandidate]


class OnePart(_Open):
    """A part of the source: the index of the source, and the positions among `source_tokens` that were left out."""

    source: int
    positions: list[int]
    text: str


class OcclusionResponse(_Answered):
    """The loss of log p of each token of the answer without each part: [part][token]; `totals` are the sums."""

    text: str
    tokens: list[str]
    token_ids: list[int]
    log_probs: list[float | None]
    source_tokens: list[str]
    spans: list[OneSpan]
    parts: list[OnePart]
    differences: list[list[float | None]]
    totals: list[float | None]
    flags: list[str]


class OneSource(_Open):
    """A source: a text with its tokens; an image, or the frames of a video side by side; or an array as bytes.

    `grid` has the rows and columns of the positions that can be attended to. `values` are [frames][bands] in base64,
    the lowest band first; a byte b stands for b / 255 of the way from `low` to `high` standard deviations around the
    mean of its band. `factor` is the number of frames to a position, `seconds` the length of a sound.
    """

    kind: str
    text: str | None = None
    tokens: list[str] | None = None
    names: list[str] | None = None
    picture: str | None = None
    width: int | None = None
    height: int | None = None
    grid: tuple[int, int] | None = None
    values: str | None = None
    frames: int | None = None
    bands: int | None = None
    low: float | None = None
    high: float | None = None
    factor: int | None = None
    seconds: float | None = None


class SourceResponse(_Answered):
    """The sources of an input as the model reads them."""

    sources: list[OneSource]
    flags: list[str]


class MapResponse(_Answered):
    """Points of the inputs; null where the vector is not a point, as of an empty text."""

    points: list[Annotated[list[float], Field(min_length=2, max_length=2)] | None]
    shares: list[float]


class ModelList(_Open):
    """The models of this server."""

    object: Literal["list"]
    data: list[Message]


class RunsResponse(_Open):
    """Runs below the folders that are served, or one of them."""


class InfoResponse(_Open):
    """Limits, languages, versions and models."""

    version: str
    limits: Message
    models: list[Message]


class ErrorBody(_Open):
    """The reason and the remedy."""

    code: str
    message: str
    type: str
    request_id: str


class ErrorResponse(_Open):
    """An error."""

    error: ErrorBody
