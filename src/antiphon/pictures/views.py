"""Which attention of an answer is drawn, and what stands beside it."""

# L layers, N heads, T rows, S columns

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from antiphon.config.models import EncoderDecoderConfig, ModelConfig
from antiphon.decoding.generation import Generation
from antiphon.decoding.generator import Generator
from antiphon.errors import DataError, UserError
from antiphon.pictures.attention import draw_attention
from antiphon.pictures.heads import draw_heads

__all__ = ["Kind", "View", "answer_and_look", "draw_view", "view_of"]

Kind = Literal["cross", "own", "source"]
FEW = 24  # tokens that a language model adds: a picture of more is hard to read
KINDS: tuple[Kind, ...] = get_args(Kind)
NOTES: dict[Kind, str] = {
    "cross": "attention to the source: a row is a token written, a column a token read",
    "own": "attention of the answer to itself: a row is a token written, a column a token before it",
    "source": "attention of the source to itself: each row looks at the columns",
}


@dataclass(frozen=True)
class View:
    """Some layers and heads of one kind of attention, ready to be drawn."""

    kind: Kind
    weights: NDArray[Any]  # [L, N, T, S]
    rows: list[str]
    columns: list[str]
    layers: list[int]  # their numbers, from 1
    heads: list[int]

    @property
    def mean(self) -> NDArray[Any]:
        """The mean over its layers and heads [T, S]."""
        return np.asarray(self.weights.mean(axis=(0, 1)))

    def only(self, *, layer: int | None, head: int | None) -> View:
        """One layer of it, one head, or both; None is all of them."""
        problems = [
            f"{name}: {number}, but there {'is' if len(known) == 1 else 'are'} {len(known)} in this attention; "
            f"give {'1' if len(known) == 1 else f'1 to {len(known)}'}, or leave it out"
            for name, number, known in (("layer", layer, self.layers), ("head", head, self.heads))
            if number is not None and number not in known
        ]
        if problems:
            raise UserError(problems)
        layers = self.layers if layer is None else [layer]
        heads = self.heads if head is None else [head]
        places = np.ix_([number - 1 for number in layers], [number - 1 for number in heads])
        return View(self.kind, self.weights[places], self.rows, self.columns, layers, heads)


def answer_and_look(generator: Generator, text: str, *, beam: int | None = None) -> Generation:
    """An answer with where the model looked, head by head; a language model goes on for a few tokens only."""
    alone = generator.config.data.source is None
    longest = min(FEW, generator.config.decoding.max_length) if alone else None
    room, tokens = generator.wording.room, len(generator.wording.question(text).prompt)
    if room is not None and longest is not None and tokens + longest > room:
        raise DataError(
            f"{text[:40]!r}: {tokens} tokens and {longest} to write are more than the {room} that the model can look "
            "back on; give a shorter text"
        )
    answer = generator.generate(text, beam=beam, max_length=longest, looks=True)
    if answer.looks is None:
        raise DataError(f"{text!r}: {', '.join(answer.flags)}; there is nothing to draw")
    return answer


def view_of(generator: Generator, answer: Generation, kind: Kind | None = None) -> View:
    """The attention of an answer that was asked for with `looks`; None: the first kind that the model has."""
    if answer.looks is None:
        raise ValueError("generate with looks=True")
    known = [name for name in KINDS if name in answer.looks.kinds]
    if not known:
        raise UserError(_nothing(generator.config.model))
    chosen = kind or known[0]
    if chosen not in known:
        there = " or ".join(known)
        raise UserError(f"attention: this model has no attention of the kind {chosen}; choose {there}")
    weights: NDArray[Any] = getattr(answer.looks, chosen)
    rows, columns = _tokens(generator, answer, chosen)
    L, N = weights.shape[:2]
    return View(chosen, weights, rows, columns, list(range(1, L + 1)), list(range(1, N + 1)))


def draw_view(view: View, path: Path, title: str) -> None:
    """One head is one large picture; several are a grid."""
    if view.weights.shape[:2] == (1, 1):
        draw_attention(view.weights[0, 0], view.columns, view.rows, path, title=title)
        return
    draw_heads(
        view.weights, view.rows, view.columns, path, title=title, note=NOTES[view.kind], layers=view.layers,
        heads=view.heads,
    )  # fmt: skip


def _tokens(generator: Generator, answer: Generation, kind: Kind) -> tuple[list[str], list[str]]:
    """What stands at the rows and at the columns; a language model has read its prompt before it wrote."""
    if kind == "source":
        return answer.source_tokens, answer.source_tokens
    if kind == "cross":
        return answer.tokens, answer.source_tokens
    alone = generator.config.data.source is None
    said = [*answer.source_tokens, *answer.tokens] if alone else answer.tokens
    first = generator.wording.target.symbols([generator.wording.start])
    return said, [*first, *said[:-1]]


def _nothing(config: ModelConfig) -> str:
    """Why a model has no attention, and what to do instead."""
    if isinstance(config, EncoderDecoderConfig):
        return (
            f"model.context.kind: {config.context.kind} is one context for the whole answer, so there is no attention "
            "to draw; train one with model.decoder.kind=bahdanau, or see what it knows of sentences: antiphon map"
        )
    return (
        f"model.decoder.kind: {config.decoder.kind} is a recurrent network that keeps all it has read in one state, so "
        "there is no attention to draw; train one with model.decoder.kind=transformer, or see its states: antiphon map"
    )
