"""Occlusion, "leave one out": how much log p of an answer falls when a part of the source is left out."""
# P parts, T target steps, W columns of pixels, H rows of them, C colours

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import count, islice
from typing import Any, Literal, TypeAlias

import numpy as np

from antiphon.data.audio import AudioReader
from antiphon.data.image import ImageReader
from antiphon.data.source import Array, Read
from antiphon.data.tokenizers import UNK
from antiphon.errors import UserError
from antiphon.inference.generation import SourceSpan
from antiphon.inference.generator import Generator
from antiphon.inference.given_answer import answer_tokens, read_input
from antiphon.inference.inputs import EncodedInput
from antiphon.inference.words import words_read
from antiphon.models.frontends.audio_frontend import TimedFrontEnd

__all__ = ["MOST_PARTS", "Occlusion", "OcclusionUnit", "SourcePart", "occlude"]

MOST_PARTS = 256  # parts of a source; neighbours among more are left out together
DIGITS = 4  # decimal places in JSON
OcclusionUnit: TypeAlias = Literal["token", "word"]


@dataclass(frozen=True)
class SourcePart:
    """A part of the source that is left out."""

    source: int  # its index
    positions: list[int]  # among the source tokens
    text: str


@dataclass(frozen=True)
class Occlusion:
    """log p of an answer with the whole source, and how much of it is lost without each part."""

    text: str  # the answer
    tokens: list[str]
    token_ids: list[int]
    log_probs: list[float]  # of each token, with the whole source
    source_tokens: list[str]
    parts: list[SourcePart]
    differences: Array  # log p(y_t | x) - log p(y_t | x without the part) [P, T]
    flags: list[str]
    spans: list[SourceSpan]  # of the sources among the source tokens; not in JSON, for they may have paths

    @property
    def totals(self) -> Array:
        """The same of the whole answer [P]; a part with a high value speaks for it, with a negative one against it."""
        totals: Array = self.differences.sum(axis=1)
        return totals

    def as_dict(self) -> dict[str, Any]:
        """The result for JSON, with four decimal places."""
        plain = ("text", "tokens", "token_ids", "log_probs", "source_tokens", "flags")
        return {
            **{name: getattr(self, name) for name in plain},
            "parts": [asdict(part) for part in self.parts],
            "differences": self.differences.round(DIGITS).tolist(),
            "totals": self.totals.round(DIGITS).tolist(),
        }


def occlude(
    generator: Generator, text: str, answer: str | list[int] | None = None, *, by: OcclusionUnit = "token"
) -> Occlusion:
    """Leave out each token (or word) of the source, each cell of an image, each position of a sound or of vectors.

    A token is removed; a tagger, which labels each token, reads <unk> in its place, and a language model loses a token
    of its prompt. A cell of an image becomes the mean of the image, a stretch of sound silent, a vector or frame the
    mean of all.
    """
    encoded = read_input(generator, text)
    target = answer_tokens(generator, encoded, answer)
    if by not in ("token", "word"):
        raise UserError(f"by: must be token or word, not {by!r}")
    spans = generator.codec.spans(encoded)
    parts, flags = _grouped(
        [_parts_of(generator, encoded, span, by) for span in spans or [_prompt_span(encoded)]], spans
    )
    found = np.array(_log_probs(generator, encoded, target, parts))  # [1 + P, T]
    return Occlusion(
        text=generator.codec.decode(encoded, tuple(target)),
        tokens=generator.codec.target.symbols(target),
        token_ids=target,
        log_probs=found[0].tolist(),
        source_tokens=generator.codec.source_symbols(encoded),
        parts=parts,
        differences=found[0] - found[1:],
        flags=[*encoded.flags, *flags],
        spans=spans,
    )


def _log_probs(
    generator: Generator, encoded: EncodedInput, target: list[int], parts: list[SourcePart]
) -> list[list[float]]:
    """log p of each token of the answer to the whole source, and to the source without each part."""

    def inputs() -> Iterator[EncodedInput]:  # one after the other: together, pictures and sounds take memory
        yield encoded
        for part in parts:
            yield _without(generator, encoded, part)

    budget, size = generator.engine.budget, generator.config.decoding.batch_size
    size = max(
        1, size if budget is None else min(size, budget // max(encoded.length, len(encoded.prompt) + len(target)))
    )
    left, found = inputs(), []
    while chunk := list(islice(left, size)):
        targets = [[*one.prompt, *target] for one in chunk]
        rows = zip(chunk, generator.engine.log_probs([one.source for one in chunk], targets, size), strict=True)
        found += [row[len(one.prompt) :] for one, row in rows]
    return found


# The parts of a source


def _prompt_span(encoded: EncodedInput) -> SourceSpan:
    """The prompt of a language model as its source."""
    return SourceSpan(source=0, kind="text", text=encoded.text, first=0, last=len(encoded.prompt) - 1)


def _parts_of(generator: Generator, encoded: EncodedInput, span: SourceSpan, by: OcclusionUnit) -> list[SourcePart]:
    """The tokens or words of a text without its </s>, or the positions of a file."""
    symbols = generator.codec.source_symbols(encoded)
    end = span.kind == "text" and not encoded.prompt
    last = span.last - end
    if span.kind == "text" and by == "word":
        words = [word for word in words_read(generator, [encoded]) if span.first <= word.first and word.last <= last]
        return [SourcePart(span.source, list(range(word.first, word.last + 1)), word.text) for word in words]
    return [SourcePart(span.source, [place], symbols[place]) for place in range(span.first, last + 1)]


def _grouped(sources: list[list[SourcePart]], spans: list[SourceSpan]) -> tuple[list[SourcePart], list[str]]:
    """The parts of all sources; if these are too many, neighbours together, and a flag that says so."""
    total = sum(map(len, sources))
    if total <= MOST_PARTS:
        return [part for parts in sources for part in parts], []
    grids = [span.grid for span in spans] or [None]
    for size in count(math.ceil(total / MOST_PARTS)):
        groups = [
            [parts[place] for place in places]
            for parts, grid in zip(sources, grids, strict=True)
            for places in (_blocks(len(parts), size) if grid is None else _squares(grid, size))
        ]
        if len(groups) <= MOST_PARTS or size > total:
            break
    flag = f"grouped: {total} parts of the source; neighbours were left out together, in {len(groups)} groups"
    return [_joined(group) for group in groups], [flag]


def _joined(group: list[SourcePart]) -> SourcePart:
    first, last = group[0], group[-1]
    text = first.text if len(group) == 1 else f"{first.text} … {last.text}"
    return SourcePart(first.source, [place for part in group for place in part.positions], text)


def _blocks(total: int, size: int) -> Iterator[list[int]]:
    """Indices below `total`, `size` neighbours together."""
    for first in range(0, total, size):
        yield list(range(first, min(first + size, total)))


def _squares(grid: tuple[int, int], size: int) -> Iterator[list[int]]:
    """The cells of a grid, at least `size` neighbours together: a square, or a stretch of a line."""
    rows, columns = grid
    high = min(rows, math.ceil(math.sqrt(size)))
    for top in _blocks(rows, high):
        for left in _blocks(columns, math.ceil(size / high)):
            yield [row * columns + column for row in top for column in left]


# What remains without a part


def _without(generator: Generator, encoded: EncodedInput, part: SourcePart) -> EncodedInput:
    """The input without a part."""
    if encoded.prompt:
        kept = [token for place, token in enumerate(encoded.prompt) if place not in part.positions]
        return replace(encoded, prompt=kept)
    sources = list(encoded.source) if isinstance(encoded.source, tuple) else [encoded.source]
    span = generator.codec.spans(encoded)[part.source]
    places = [position - span.first for position in part.positions]
    values = sources[part.source]
    if isinstance(values, list):
        labelled = generator.codec.labels is not None
        ids = [UNK if place in places else token for place, token in enumerate(values)]
        sources[part.source] = ids if labelled else [token for place, token in enumerate(values) if place not in places]
    else:
        sources[part.source] = _blank(generator, span, values, places)
    whole: Read = tuple(sources) if isinstance(encoded.source, tuple) else sources[0]
    return replace(encoded, source=whole)


def _blank(generator: Generator, span: SourceSpan, values: Array, places: list[int]) -> Array:
    """The array of a file in which these positions say nothing."""
    reader, front = generator.source.parts[span.source], generator.model.front_ends[span.source]
    blanked = values.copy()
    if isinstance(reader, ImageReader) and span.grid is not None:
        pixels = blanked.reshape(len(values), reader.config.height, -1)  # [W, H, C], the same memory
        mean = pixels.mean(axis=(0, 1))
        rows, columns = (
            np.linspace(0, size, count + 1).round().astype(int)
            for size, count in zip((reader.config.height, len(values)), span.grid, strict=True)
        )
        for place in places:
            row, column = divmod(place, span.grid[1])
            pixels[columns[column] : columns[column + 1], rows[row] : rows[row + 1]] = mean
        return blanked
    factor = front.factor if isinstance(front, TimedFrontEnd) else 1
    nothing = values.min(axis=0) if isinstance(reader, AudioReader) else values.mean(axis=0)
    for place in places:
        blanked[place * factor : (place + 1) * factor] = nothing
    return blanked
