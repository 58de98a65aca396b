"""Choose which attention of an answer is drawn, and draw it."""
# L layers, N heads, T target steps, S source steps

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.config.networks import (
    AttentionConfig,
    ConcatenatedConfig,
    EncoderDecoderConfig,
    LabelsConfig,
    LanguageModelConfig,
    ModelConfig,
    front_ends_of,
)
from antiphon.config.schema import Config, front_kind
from antiphon.config.sources import LinearConfig
from antiphon.data.audio import AudioReader
from antiphon.data.batches import source_batch
from antiphon.data.build_source import one_text
from antiphon.data.image import ImageReader
from antiphon.data.source import FileSource
from antiphon.data.tokenizers import EOS, SPECIALS
from antiphon.data.video import FramesReader
from antiphon.errors import DataError, UserError
from antiphon.inference.generation import Generation, SourceSpan
from antiphon.inference.generator import LONGEST_CONTINUATION, Generator
from antiphon.inference.inputs import encode_inputs
from antiphon.inference.options import SearchKeywords
from antiphon.models.frontends.audio_frontend import SubsampledFrontEnd
from antiphon.plots.attention_heads import draw_heads
from antiphon.plots.attention_matrix import draw_attention_matrix
from antiphon.plots.image_attention import attention_scale, draw_image_attention, draw_images_beside
from antiphon.plots.spectrogram import draw_spectrogram
from antiphon.plots.video_attention import draw_video_attention

__all__ = [
    "AttentionKind", "AttentionView", "answer_with_attention", "attention_view", "draw_answer", "explain_attention",
    "explain_beside",
]  # fmt: skip

AttentionKind = Literal["cross", "own", "source"]
KINDS: tuple[AttentionKind, ...] = get_args(AttentionKind)
LEAST_DRAWN = 0.01  # probability of a label at some token
_NOTES: dict[AttentionKind, str] = {
    "cross": "attention to the source: a row is a token written, a column a token read",
    "own": "attention of the answer to itself: a row is a token written, a column a token before it",
    "source": "attention of the source to itself: each row attends to the columns",
}
_PROMPT_NOTE = (
    "attention of the text to itself: a row is a token of the prompt or, below the line, one that was written; "
    "a column is a token before it"
)
_CONCATENATED_NOTES: dict[AttentionKind, str] = {  # one softmax over source and answer
    "cross": "; the rest of each row, up to 1, goes to the answer (own)",
    "own": "; the rest of each row, up to 1, goes to the source (cross)",
}
_OTHERS_NOTE = "the rest of each row, up to 1, goes to the other sources, whose pictures have the same scale"
_COPY_NOTE = "; copied: how probable it is that the token was copied from the source, given which one it is"
_LABELS_NOTE = "the probability of each label: a row is a token, a column a label; labels below 1 % are left out"


@dataclass(frozen=True)
class Explanation:
    """An answer, and the pictures of its attention that were written."""

    answer: Generation
    files: list[Path]


def explain_attention(
    generator: Generator,
    text: str,
    path: Path,
    *,
    kind: AttentionKind | None = None,
    layer: int | None = None,
    head: int | None = None,
    **options: Unpack[SearchKeywords],
) -> Explanation:
    """Answer, and draw the attention: over the sources themselves, if they are not one text and nothing is chosen.

    Else a view of one kind is drawn, of all its layers and heads or of those chosen.
    """
    answer = answer_with_attention(generator, text, **options)
    chosen = [f"{name} {number}" for name, number in (("layer", layer), ("head", head)) if number is not None]
    if answer.weights is not None and not one_text(generator.config.data) and not (kind or chosen):
        return Explanation(answer, draw_sources(generator, answer, path))
    view = attention_view(generator, answer, kind).only(layer=layer, head=head)
    title = text if view.kind == "source" else answer.text
    _draw_view(view, path, title=f"{title}   ({', '.join(chosen)})" if chosen else title)
    return Explanation(answer, [path])


def explain_beside(
    generator: Generator, other: Generator, text: str, path: Path, **options: Unpack[SearchKeywords]
) -> Explanation:
    """Answer, and draw the attention of two models to an image, below one another, while they write this answer."""
    pair = dict(zip(_pair_names(generator, other), (generator, other), strict=True))
    if not isinstance(generator.source, ImageReader) or not isinstance(other.source, ImageReader):
        raise UserError("beside: only for two runs that read one image each; draw these one by one")
    answer = answer_with_attention(generator, text, **options)
    cells = {}
    for name, model in pair.items():
        weights, span = _forced_weights(model, answer)
        if weights is None:
            raise UserError(f"beside: the {name} run has no attention to draw; take a run that has")
        cells[name] = _image_weights(weights, span)
    image = generator.source.picture(generator.source.read(text))
    draw_images_beside(image, cells, answer.tokens, path, answer.text)
    return Explanation(answer, [path])


def _pair_names(*generators: Generator) -> list[str]:
    """`soft` and `hard` if the two differ in that."""
    contexts = [getattr(generator.config.model, "context", None) for generator in generators]
    kinds: list[str] = [context.alignment.kind for context in contexts if isinstance(context, AttentionConfig)]
    return kinds if len(set(kinds)) == len(generators) else ["first", "second"]


def _forced_weights(generator: Generator, answer: Generation) -> tuple[NDArray[Any] | None, SourceSpan]:
    """The attention [T, S] of a model to the source of an answer that it is made to write, and its cells."""
    ids = [*generator.target_tokenizer.encode(answer.text), EOS][: len(answer.tokens)]
    if generator.target_tokenizer.symbols(ids) != answer.tokens:
        raise UserError("beside: the second run does not have the target tokens of the first; train both on one table")
    [encoded] = encode_inputs(generator.codec, [answer.spans[0].text])
    return generator.engine.weights([encoded.source], [ids])[0], generator.codec.spans(encoded)[0]


def draw_answer(generator: Generator, answer: Generation, path: Path, *, heads: bool) -> list[Path]:
    """Draw the attention to the sources and, in NAME-heads, every head if there are several; return the files."""
    if isinstance(generator.config.model.decoder, LabelsConfig) and answer.heads is not None:
        _draw_view(label_view(generator, answer), path, title=answer.text)
        return [path]
    files = [] if answer.weights is None else draw_sources(generator, answer, path)
    if heads and answer.heads is not None and answer.heads.kinds:
        view = attention_view(generator, answer)
        if view.weights.shape[:2] != (1, 1):
            files.append(path.with_stem(f"{path.stem}-heads"))
            _draw_view(view, files[-1], title=answer.text)
    return files


def answer_with_attention(generator: Generator, text: str, **options: Unpack[SearchKeywords]) -> Generation:
    """An answer with the attention of every head; a language model writes a few tokens only."""
    config, codec = generator.config, generator.codec
    if config.data.source is None and options.get("max_length") is None:  # few enough tokens to be seen at once
        most, room = min(LONGEST_CONTINUATION, config.decoding.max_length), codec.context_length
        options["max_length"] = most if room is None else max(1, min(most, room - len(codec.encode(text).prompt)))
    answer = generator.generate(text, heads=True, **options)
    if answer.heads is None:
        raise DataError(f"{text!r}: {', '.join(answer.flags)}; there is nothing to draw")
    return answer


# Attention over the sources themselves: images, sounds, vectors, videos and texts


def draw_sources(generator: Generator, answer: Generation, path: Path) -> list[Path]:
    """Draw the attention over each source of an answer that has weights, on one scale; return the files.

    One source goes to the path itself; several get their number, from 1, before the suffix.
    """
    assert answer.weights is not None
    files = [path]
    if len(answer.spans) > 1:
        files = [path.with_stem(f"{path.stem}-{number}") for number in range(1, len(answer.spans) + 1)]
    highest = None if one_text(generator.config.data) else attention_scale(answer.weights)
    for span, file in zip(answer.spans, files, strict=True):
        _draw_source(generator, span, answer, file, highest)
    return files


def _draw_source(generator: Generator, part: SourceSpan, answer: Generation, path: Path, highest: float | None) -> None:
    """Draw one source, as far as it was read."""
    assert answer.weights is not None
    source = generator.source.parts[part.source]
    here = slice(part.first, part.last + 1)
    weights, words, title = answer.weights[:, here], answer.tokens, answer.text
    if not isinstance(source, FileSource):
        note = "" if len(answer.spans) == 1 else _OTHERS_NOTE
        draw_attention_matrix(weights, answer.source_tokens[here], words, path, title, note=note, highest=highest)
        return
    values = source.read(part.text)[: generator.config.data.sources[part.source].max_length]
    factor = _subsampling(generator.config, part.source)
    match source:
        case ImageReader():
            cells = _image_weights(weights, part)
            draw_image_attention(source.picture(values), cells, words, path, title, highest=highest)
        case FramesReader():
            each = weights.repeat(factor, axis=1)[:, : len(values)] / factor  # frames read as one share its weight
            draw_video_attention(source.picture(values), each, words, path, title, highest=highest)
        case _:
            seconds = source.config.step / 1000 if isinstance(source, AudioReader) else None
            draw_spectrogram(
                values, weights, words, path, title, factor=factor, seconds=seconds, highest=highest
            )  # fmt: skip


def _image_weights(weights: NDArray[Any], part: SourceSpan) -> NDArray[Any]:
    """The weights [T, S] of an image by row and column of its cells [T, n, m]."""
    return weights.reshape(len(weights), *(part.grid or (1, weights.shape[1])))


def _subsampling(config: Config, number: int) -> int:
    """The number of steps, vectors or frames of a source that its front end makes one vector of."""
    assert isinstance(config.model, EncoderDecoderConfig)
    chosen = front_ends_of(config.model, len(config.data.sources))[number]
    if isinstance(chosen, LinearConfig):
        return chosen.stack
    return SubsampledFrontEnd.factor if front_kind(config.data.sources[number].kind, chosen) == "subsampled" else 1


# Views: layers and heads of one kind of attention


@dataclass(frozen=True)
class AttentionView:
    """Some layers and heads of one kind of attention, ready to be drawn."""

    kind: AttentionKind | Literal["labels"]  # the labels of a tagger are drawn in the same way
    weights: NDArray[Any]  # [L, N, T, S]
    rows: list[str]
    columns: list[str]
    layers: list[int]  # their numbers, from 1
    heads: list[int]
    note: str  # the meaning of a row and a column
    prompt: int = 0  # the number of rows that are the prompt of a language model
    copy_probs: list[float] | None = None  # the probability that the token of each row was copied

    @property
    def prompt_end(self) -> tuple[int, int] | None:
        """The row and the column after the prompt; the columns begin with <s>."""
        return (self.prompt, self.prompt + 1) if 0 < self.prompt < len(self.rows) else None

    @property
    def mean(self) -> NDArray[Any]:
        """The mean over its layers and heads [T, S]."""
        return np.asarray(self.weights.mean(axis=(0, 1)))

    def only(self, *, layer: int | None, head: int | None) -> AttentionView:
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


def attention_view(generator: Generator, answer: Generation, kind: AttentionKind | None = None) -> AttentionView:
    """The attention of an answer that was generated with `heads=True`; None: the first kind that the model has."""
    if answer.heads is None:
        raise ValueError("generate with heads=True")
    if kind is None and isinstance(generator.config.model.decoder, LabelsConfig):
        return label_view(generator, answer)
    known = [name for name in KINDS if name in answer.heads.kinds]
    if not known:
        raise UserError(_no_attention(generator.config.model))
    chosen = kind or known[0]
    if chosen not in known:
        raise UserError(f"attention: this model has no attention of the kind {chosen}; choose {' or '.join(known)}")
    weights: NDArray[Any] = getattr(answer.heads, chosen)
    rows, columns = _tokens(generator, answer, chosen)
    prompt = len(answer.source_tokens) if generator.config.data.source is None else 0
    copy_probs = answer.copied if chosen == "cross" else None
    return AttentionView(
        kind=chosen,
        weights=weights,
        rows=rows,
        columns=columns,
        layers=list(range(1, weights.shape[0] + 1)),
        heads=list(range(1, weights.shape[1] + 1)),
        note=_note(generator.config.model, chosen, prompt) + (_COPY_NOTE if copy_probs else ""),
        prompt=prompt,
        copy_probs=copy_probs,
    )


@torch.inference_mode()
def label_view(generator: Generator, answer: Generation) -> AttentionView:
    """The probabilities of the labels of each token."""
    [span] = answer.spans
    encoded = generator.codec.encode(span.text)
    steps = torch.zeros(1, span.last - span.first, dtype=torch.long)  # of all tokens but </s>; a tagger reads no label
    found = generator.model(source_batch([encoded.source]), steps).logits[0].softmax(dim=-1)  # [T, V]
    chosen = [number for number in range(len(SPECIALS), found.size(1)) if bool(found[:, number].max() >= LEAST_DRAWN)]
    return AttentionView(
        kind="labels",
        weights=found[:, chosen][None, None].numpy(),
        rows=generator.codec.source_words(encoded),  # unknown ones as they are in the text
        columns=generator.target_tokenizer.symbols(chosen),
        layers=[1],
        heads=[1],
        note=_LABELS_NOTE,
    )


def _draw_view(view: AttentionView, path: Path, title: str) -> None:
    """Draw one head as a large matrix, several as a grid."""
    if view.weights.shape[:2] == (1, 1):
        draw_attention_matrix(
            view.weights[0, 0], view.columns, view.rows, path, title=title, note=view.note, prompt_end=view.prompt_end,
            copy_probs=view.copy_probs,
        )  # fmt: skip
        return
    draw_heads(
        view.weights, view.rows, view.columns, path, title=title, note=view.note, layers=view.layers,
        heads=view.heads, prompt_end=view.prompt_end, copy_probs=view.copy_probs,
    )  # fmt: skip


def _note(config: ModelConfig, kind: AttentionKind, prompt: int) -> str:
    if isinstance(config, LanguageModelConfig) and prompt:
        return _PROMPT_NOTE
    return _NOTES[kind] + (_CONCATENATED_NOTES[kind] if isinstance(config, ConcatenatedConfig) else "")


def _tokens(generator: Generator, answer: Generation, kind: AttentionKind) -> tuple[list[str], list[str]]:
    """The tokens of the rows and of the columns; a language model has read its prompt before it wrote."""
    if kind == "source":
        return answer.source_tokens, answer.source_tokens
    if kind == "cross":
        return answer.tokens, answer.source_tokens
    is_language_model = generator.config.data.source is None
    tokens = [*answer.source_tokens, *answer.tokens] if is_language_model else answer.tokens
    start = generator.codec.target.symbols([generator.codec.start])
    return tokens, [*start, *tokens[:-1]]


def _no_attention(config: ModelConfig) -> str:
    """Why a model has no attention, and what to do instead."""
    if isinstance(config, EncoderDecoderConfig):
        return (
            f"model.context.kind: {config.context.kind} is one context for the whole answer, so there is no attention "
            "to draw; train one with 'model.decoder={kind: bahdanau}' 'model.context={kind: attention}', or draw its "
            "sentence vectors: antiphon map"
        )
    return (
        f"model.decoder.kind: {config.decoder.kind} is a recurrent network that keeps all it has read in one state, so "
        "there is no attention to draw; train one with 'model.decoder={kind: transformer}', or draw its states: "
        "antiphon map"
    )
