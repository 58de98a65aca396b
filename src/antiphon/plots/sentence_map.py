"""Sentences as points in the plane: where like meanings lie close."""
# B batch, S source steps, T steps, H state

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from antiphon.config.networks import ConcatenatedConfig, EncoderDecoderConfig, ModelConfig, RecurrentEncoderConfig
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import PAD
from antiphon.errors import DataError, UserError
from antiphon.inference.generator import Generator
from antiphon.inference.inputs import Question, questions_of
from antiphon.models.decoders.static_context import POOLS
from antiphon.models.model import EncoderDecoder, SequenceModel
from antiphon.plots.map_page import write_page
from antiphon.plots.map_plane import Plane, draw_plane, principal_plane
from antiphon.plots.style import MAPS, suffix_problems
from antiphon.sequence import Memory, MultiSource, Sequence

__all__ = [
    "Pool",
    "SentenceMap",
    "Vectors",
    "draw_map",
    "few_problems",
    "make_map",
    "pool_name",
    "sentence_vectors",
    "usual_pool",
]

# A sentence as one vector: the encoder's last state, or the mean or the maximum of its states.

Pool = Literal["last", "mean", "max"]


@dataclass(frozen=True)
class Vectors:
    """A vector for each sentence that has one [n, H]; the flags say, a line each, what was left out or not known."""

    sentences: list[str]
    vectors: NDArray[np.float64]
    flags: list[str]


def usual_pool(config: ModelConfig) -> Pool:
    """A recurrent network has read all when it stands at the end; elsewhere the last state knows its place best."""
    if isinstance(config, EncoderDecoderConfig) and not isinstance(config.encoder, RecurrentEncoderConfig):
        return "mean"
    return "last"


def pool_name(config: ModelConfig, pool: Pool) -> str:
    """What the vectors are, in words."""
    whose = "the encoder" if isinstance(config, EncoderDecoderConfig) else "the network"
    if pool == "last":
        return f"the last state of {whose}"
    return f"{'the mean' if pool == 'mean' else 'the largest values'} of the states of {whose}"


def sentence_vectors(generator: Generator, sentences: list[str], pool: Pool | None = None) -> Vectors:
    """The vector of each sentence, whatever stands beside it; an empty sentence has none."""
    model = generator.config.model
    chosen = pool or usual_pool(model)
    if isinstance(model, ConcatenatedConfig) and chosen != "last":
        raise UserError(
            f"pool: {chosen} of the source's states cannot be had where one network reads source and target; "
            "leave it out, or say last"
        )
    questions = questions_of(generator.wording, sentences)
    rows = [row for row, question in enumerate(questions) if not question.empty]
    found: dict[int, NDArray[np.float64]] = {}
    for batch in _batches(questions, rows, generator.config.decoding.batch_size):
        memory = _read(generator, [questions[row] for row in batch])
        for row, vector in zip(batch, POOLS[chosen](memory)[:, -1].double().numpy(), strict=True):
            found[row] = vector
    vectors = np.stack([found[row] for row in rows]) if rows else np.zeros((0, 0))
    return Vectors([sentences[row] for row in rows], vectors, [line for one in questions for line in _flags(one)])


def _flags(question: Question) -> list[str]:
    """One line of what to say of a sentence, with its beginning; none if there is nothing to say."""
    flags = question.flags
    if question.empty:
        flags = ["empty, so it is left out"]
    return [f"{question.text[:40]!r}: {'; '.join(flags)}"] if flags else []


def _batches(questions: list[Question], rows: list[int], size: int) -> Iterator[list[int]]:
    """Row numbers, like lengths together."""
    order = sorted(rows, key=lambda row: questions[row].length + len(questions[row].prompt))
    for first in range(0, len(order), size):
        yield order[first : first + size]


@torch.inference_mode()
def _read(generator: Generator, questions: list[Question]) -> Memory:
    """What the encoder knows of sources; what a network without one knows after it has read them."""
    source, model = source_batch([question.source for question in questions]), generator.model
    if isinstance(model, EncoderDecoder):
        return model.encode(source)
    wording = generator.wording
    inputs = [[wording.start, *question.prompt] for question in questions]
    if wording.room is not None:
        inputs = [ids[-wording.room :] for ids in inputs]
    tokens = Sequence.of_ids(inputs, PAD)
    states = _top_states(model, source, tokens.values)
    return Memory(states, tokens.mask, final=Sequence(states, tokens.mask).last.unsqueeze(1))


def _top_states(model: SequenceModel, source: Sequence | MultiSource, inputs: Tensor) -> Tensor:
    """What the output layer is given at every position [B, T, H]; a look from outside, since only pictures need it."""
    given: list[Tensor] = []

    def keep(_: nn.Module, arguments: tuple[Tensor]) -> None:
        given.append(arguments[0])

    hook = model.decoder.output.register_forward_pre_hook(keep)
    try:
        model(source, inputs)
    finally:
        hook.remove()
    return given[0]


@dataclass(frozen=True)
class SentenceMap:
    """Sentences, their points, and what the points are made of."""

    sentences: list[str]
    plane: Plane
    made_of: str
    flags: list[str]  # what was left out or not known, a line for each such sentence

    @property
    def spread(self) -> str:
        """How much of the differences can be seen, in words."""
        if self.plane.one_spot:
            return "these sentences are the same to the model"
        across, down = self.plane.shares
        return f"{across:.0%} and {down:.0%} of the variance"


def few_problems(name: str, count: int) -> list[str]:
    """A sentence if there are too few of them in the file or argument of this name."""
    return [] if count >= 2 else [f"{name}: a map needs at least two sentences that differ, got {count}; give more"]


def make_map(generator: Generator, sentences: list[str], pool: Pool | None = None) -> SentenceMap:
    """The principal plane of the sentences' vectors."""
    found = sentence_vectors(generator, sentences, pool)
    if problems := few_problems("sentences", len(found.sentences)):
        raise DataError(problems)
    model = generator.config.model
    made_of = pool_name(model, pool or usual_pool(model))
    return SentenceMap(found.sentences, principal_plane(found.vectors), made_of, found.flags)


def draw_map(found: SentenceMap, path: Path, title: str = "") -> None:
    """Write it as HTML, PNG or SVG by suffix."""
    if problems := suffix_problems(path, MAPS):
        raise UserError(problems)
    name = title or f"{len(found.sentences):,} sentences"
    if path.suffix.lower() == ".html":
        like = f"T{found.spread[1:]}" if found.plane.one_spot else "Like sentences lie close"
        note = f"Each point is a sentence: {found.made_of}. {like}."
        write_page(found.plane, found.sentences, path, name, note)
    else:
        same = f"; {found.spread}" if found.plane.one_spot else ""
        draw_plane(found.plane, found.sentences, path, title=f"{name}: {found.made_of}{same}")
