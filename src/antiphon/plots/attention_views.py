"""Which attention of an answer is drawn, and what stands beside it."""
# T words, S steps of a source, S' vectors that are looked at
# L layers, N heads, T rows, S columns

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from antiphon.config.checks_sources import front_of, fronts_of
from antiphon.config.networks import ConcatenatedConfig, EncoderDecoderConfig, LanguageModelConfig, ModelConfig
from antiphon.config.schema import Config
from antiphon.config.sources import AudioConfig, FeaturesConfig, FramesConfig, ImageConfig, LinearConfig
from antiphon.data.arrays import FeaturesReader
from antiphon.data.audio import AudioReader
from antiphon.data.image import ImageReader
from antiphon.data.video import FramesReader
from antiphon.errors import DataError, UserError
from antiphon.inference.generation import Generation, Part
from antiphon.inference.generator import Generator
from antiphon.models.frontends.audio_frontend import SubsampledFrontEnd
from antiphon.plots.attention_heads import draw_heads
from antiphon.plots.attention_matrix import draw_attention
from antiphon.plots.image_attention import draw_cells
from antiphon.plots.spectrogram import draw_spectrogram
from antiphon.plots.video_attention import draw_frames

__all__ = ["Kind", "View", "answer_and_look", "draw_sources", "draw_view", "picture_paths", "view_of"]

# Attention to sources that are no single text: pictures, sounds, vectors, videos, or several sources.


def picture_paths(parts: int, path: Path) -> list[Path]:
    """A picture for each part of the source: the path itself, or with the part's number, from 1, before the suffix."""
    return [path] if parts == 1 else [path.with_stem(f"{path.stem}-{number}") for number in range(1, parts + 1)]


def draw_sources(generation: Generation, config: Config, path: Path) -> list[Path]:
    """Where the model looked in each part of the source, word by word; `generation` has weights. Returns the files."""
    assert generation.weights is not None
    paths = picture_paths(len(generation.parts), path)
    for part, file in zip(generation.parts, paths, strict=True):
        _draw_part(part, config, generation, file)
    return paths


def _draw_part(part: Part, config: Config, generation: Generation, path: Path) -> None:
    """What was too long is drawn as far as it was read."""
    assert generation.weights is not None
    source = config.data.sources[part.source]
    here = slice(part.first, part.last + 1)
    weights, words, title = generation.weights[:, here], generation.tokens, generation.text
    match source:
        case ImageConfig():
            image = ImageReader(source)
            grid = part.grid or (1, weights.shape[1])
            seen = image.picture(image.read(part.text)[: source.max_length])
            draw_cells(seen, weights.reshape(len(words), *grid), words, path, title)
        case FramesConfig():
            video, factor = FramesReader(source), _factor(config, part.source)
            frames = video.picture(video.read(part.text)[: source.max_length])
            each = weights.repeat(factor, axis=1)[:, : len(frames)] / factor  # what are read as one share its weight
            draw_frames(frames, each, words, path, title)
        case AudioConfig():
            steps, factor = AudioReader(source).read(part.text)[: source.max_length], _factor(config, part.source)
            draw_spectrogram(steps, weights, words, path, title, factor=factor, seconds=source.step / 1000)
        case FeaturesConfig():
            features = FeaturesReader(source, FeaturesReader.first_width(part.text))
            steps, factor = features.read(part.text)[: source.max_length], _factor(config, part.source)
            draw_spectrogram(steps, weights, words, path, title, factor=factor)
        case _:
            draw_attention(weights, generation.source_tokens[here], words, path, title=title)


def _factor(config: Config, number: int) -> int:
    """Steps, vectors or frames of a source for which one vector of its front stands."""
    assert isinstance(config.model, EncoderDecoderConfig)
    chosen = fronts_of(config.model, len(config.data.sources))[number]
    if isinstance(chosen, LinearConfig):
        return chosen.stack
    return SubsampledFrontEnd.factor if front_of(config.data.sources[number].kind, chosen) == "subsampled" else 1


Kind = Literal["cross", "own", "source"]
FEW = 24  # tokens that a language model adds: a picture of more is hard to read
KINDS: tuple[Kind, ...] = get_args(Kind)
_NOTES: dict[Kind, str] = {
    "cross": "attention to the source: a row is a token written, a column a token read",
    "own": "attention of the answer to itself: a row is a token written, a column a token before it",
    "source": "attention of the source to itself: each row looks at the columns",
}
_OF_A_TEXT = (
    "attention of the text to itself: a row is a token of the prompt or, below the line, one that was written; "
    "a column is a token before it"
)
_OF_ONE_NETWORK: dict[Kind, str] = {  # it looks at source and answer with one softmax
    "cross": "; the rest of each row, up to 1, goes to the answer (own)",
    "own": "; the rest of each row, up to 1, goes to the source (cross)",
}
_OF_COPIES = "; copied: how probable it is that the token was copied from the source, given which one it is"


@dataclass(frozen=True)
class View:
    """Some layers and heads of one kind of attention, ready to be drawn."""

    kind: Kind
    weights: NDArray[Any]  # [L, N, T, S]
    rows: list[str]
    columns: list[str]
    layers: list[int]  # their numbers, from 1
    heads: list[int]
    note: str  # what a row and a column are
    prompt: int = 0  # how many of the rows a language model was given
    copied: list[float] | None = None  # how probable it is that the token of each row was copied

    @property
    def part(self) -> tuple[int, int] | None:
        """Where the prompt ends, in rows and in columns, which begin with <s>."""
        return (self.prompt, self.prompt + 1) if 0 < self.prompt < len(self.rows) else None

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
        return replace(self, weights=self.weights[places], layers=layers, heads=heads)


def answer_and_look(generator: Generator, text: str, *, beam: int | None = None) -> Generation:
    """An answer with where the model looked, head by head; a language model goes on for a few tokens only."""
    longest = _few(generator, text) if generator.config.data.source is None else None
    answer = generator.generate(text, beam=beam, max_length=longest, looks=True)
    if answer.looks is None:
        raise DataError(f"{text!r}: {', '.join(answer.flags)}; there is nothing to draw")
    return answer


def _few(generator: Generator, text: str) -> int:
    """So many tokens that all of them and the text are seen at once."""
    most, room = min(FEW, generator.config.decoding.max_length), generator.wording.room
    return most if room is None else max(1, min(most, room - len(generator.wording.question(text).prompt)))


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
    prompt = len(answer.source_tokens) if generator.config.data.source is None else 0
    copied = answer.copied if chosen == "cross" else None
    return View(
        kind=chosen,
        weights=weights,
        rows=rows,
        columns=columns,
        layers=list(range(1, L + 1)),
        heads=list(range(1, N + 1)),
        note=_note(generator.config.model, chosen, prompt) + (_OF_COPIES if copied else ""),
        prompt=prompt,
        copied=copied,
    )


def draw_view(view: View, path: Path, title: str) -> None:
    """One head is one large picture; several are a grid."""
    if view.weights.shape[:2] == (1, 1):
        draw_attention(
            view.weights[0, 0], view.columns, view.rows, path, title=title, note=view.note, part=view.part,
            copied=view.copied,
        )  # fmt: skip
        return
    draw_heads(
        view.weights, view.rows, view.columns, path, title=title, note=view.note, layers=view.layers,
        heads=view.heads, part=view.part, copied=view.copied,
    )  # fmt: skip


def _note(config: ModelConfig, kind: Kind, prompt: int) -> str:
    """What the rows and the columns are, in this kind of model."""
    if isinstance(config, LanguageModelConfig) and prompt:
        return _OF_A_TEXT
    return _NOTES[kind] + (_OF_ONE_NETWORK[kind] if isinstance(config, ConcatenatedConfig) else "")


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
            "to draw; train one with 'model.decoder={kind: bahdanau}' 'model.context={kind: attention}', or see what "
            "it knows of sentences: antiphon map"
        )
    return (
        f"model.decoder.kind: {config.decoder.kind} is a recurrent network that keeps all it has read in one state, so "
        "there is no attention to draw; train one with 'model.decoder={kind: transformer}', or see its states: "
        "antiphon map"
    )
