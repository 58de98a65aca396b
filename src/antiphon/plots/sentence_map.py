"""Sentences as points in the plane, by the principal components of their vectors: similar ones lie close."""
# B batch, S source steps, T steps, H state, n sentences; lengths of the picture in inches

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from antiphon.config.networks import (
    ConcatenatedConfig,
    EncoderDecoderConfig,
    ModelConfig,
    RecurrentEncoderConfig,
    TaggerConfig,
)
from antiphon.config.schema import DataConfig
from antiphon.data.batches import source_batch
from antiphon.data.source import join_cells, split_cells
from antiphon.data.tokenizers import PAD
from antiphon.errors import DataError, UserError
from antiphon.inference.generator import Generator
from antiphon.inference.inputs import EncodedInput, encode_inputs
from antiphon.models.decoders.static_context import POOLS
from antiphon.models.model import EncoderDecoder, SequenceModel
from antiphon.plots.style import ACCENT, INK, LINE, QUIET, font, printable, save_figure, text_size, write_title
from antiphon.sequence import Memory, MultiSource, Sequence

__all__ = ["Pool", "SentenceMap", "draw_map", "make_map", "too_few_sentences"]

# A sentence as one vector: the encoder's last state, or the mean or the maximum of its states

Pool = Literal["last", "mean", "max"]


@dataclass(frozen=True)
class SentenceVectors:
    """A vector for each sentence that is not empty [n, H]; each flag is a line on what was left out or not known."""

    sentences: list[str]
    vectors: NDArray[np.float64]
    flags: list[str]


def default_pool(config: ModelConfig) -> Pool:
    """The last state of a recurrent network, which has read all; the mean of other encoders' states."""
    if isinstance(config, EncoderDecoderConfig | TaggerConfig) and not isinstance(
        config.encoder, RecurrentEncoderConfig
    ):
        return "mean"
    return "last"


def pool_name(config: ModelConfig, pool: Pool) -> str:
    """`the last state of the encoder`"""
    network = "the encoder" if isinstance(config, EncoderDecoderConfig | TaggerConfig) else "the network"
    if pool == "last":
        return f"the last state of {network}"
    return f"{'the mean' if pool == 'mean' else 'the largest values'} of the states of {network}"


def sentence_vectors(generator: Generator, sentences: list[str], pool: Pool | None = None) -> SentenceVectors:
    """The vector of each sentence, the same in any batch; an empty sentence has none."""
    model = generator.config.model
    pool = pool or default_pool(model)
    if isinstance(model, ConcatenatedConfig) and pool != "last":
        raise UserError(
            f"pool: {pool} of the source's states cannot be had where one network reads source and target; "
            "leave it out, or say last"
        )
    inputs = encode_inputs(generator.codec, sentences)
    rows = [row for row, encoded in enumerate(inputs) if not encoded.empty]
    vectors: dict[int, NDArray[np.float64]] = {}
    by_length = sorted(rows, key=lambda row: inputs[row].length + len(inputs[row].prompt))
    size = generator.config.decoding.batch_size
    for first in range(0, len(rows), size):
        batch = by_length[first : first + size]
        memory = _encode(generator, [inputs[row] for row in batch])
        vectors |= dict(zip(batch, POOLS[pool](memory)[:, -1].double().numpy(), strict=True))
    return SentenceVectors(
        [sentences[row] for row in rows],
        np.stack([vectors[row] for row in rows]) if rows else np.zeros((0, 0)),
        [flag for encoded in inputs for flag in _flags(encoded)],
    )


def _flags(encoded: EncodedInput) -> list[str]:
    """One line with the beginning of the sentence and all its flags; none without flags."""
    flags = ["empty, so it is left out"] if encoded.empty else encoded.flags
    return [f"{encoded.text[:40]!r}: {'; '.join(flags)}"] if flags else []


@torch.inference_mode()
def _encode(generator: Generator, inputs: list[EncodedInput]) -> Memory:
    """The encoder's states of sources, or the top states of a network without an encoder."""
    source, model = source_batch([encoded.source for encoded in inputs]), generator.model
    if isinstance(model, EncoderDecoder):
        return model.encode(source)
    codec = generator.codec
    contexts = [[codec.start, *encoded.prompt] for encoded in inputs]
    if codec.context_length is not None:
        contexts = [ids[-codec.context_length :] for ids in contexts]
    tokens = Sequence.of_ids(contexts, PAD)
    states = _top_states(model, source, tokens.values)
    return Memory(states, tokens.mask, final=Sequence(states, tokens.mask).last.unsqueeze(1))


def _top_states(model: SequenceModel, source: Sequence | MultiSource, inputs: Tensor) -> Tensor:
    """The inputs of the output layer at every position [B, T, H], caught by a hook, since only this map needs them."""
    caught: list[Tensor] = []

    def catch(_: nn.Module, arguments: tuple[Tensor]) -> None:
        caught.append(arguments[0])

    hook = model.decoder.output.register_forward_pre_hook(catch)
    try:
        model(source, inputs)
    finally:
        hook.remove()
    return caught[0]


# Principal components

_SAME = 1e-6  # of the largest value: a difference that single precision makes


@dataclass(frozen=True)
class PrincipalPlane:
    """Points [n, 2] along the two directions of largest variance, and the share of variance of each."""

    points: NDArray[np.float64]
    shares: tuple[float, float]

    @property
    def is_single_point(self) -> bool:
        """True if all states are equal."""
        return self.shares == (0.0, 0.0)


def principal_plane(states: NDArray[Any]) -> PrincipalPlane:
    """X − mean = U Σ Vᵀ;  points = (X − mean) V_2;  share_k = σ_k² / Σ σ²

    The sign of a direction is arbitrary: its largest value is made positive, so that equal states give equal maps.
    """
    values = np.asarray(states, dtype=np.float64)
    if not np.isfinite(values).all():
        raise UserError("the model's states are not numbers; its training has diverged, so train it again")
    if np.ptp(values, axis=0).max() <= _SAME * np.abs(values).max():
        return PrincipalPlane(np.zeros((len(values), 2)), (0.0, 0.0))
    centred = values - values.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    largest = np.abs(directions).argmax(axis=1)
    directions *= np.where(directions[np.arange(len(directions)), largest] < 0, -1.0, 1.0)[:, None]
    points, variances = np.zeros((len(values), 2)), np.zeros(2)
    kept = min(2, len(sizes))
    points[:, :kept] = centred @ directions[:kept].T
    variances[:kept] = sizes[:kept] ** 2
    shares = variances / float((sizes**2).sum())
    return PrincipalPlane(points, (float(shares[0]), float(shares[1])))


@dataclass(frozen=True)
class SentenceMap:
    """Sentences, their points, and the vectors that the points are projections of, in words."""

    sentences: list[str]
    labels: list[str]  # of the points: sentences, and names of files without their folders
    plane: PrincipalPlane
    made_of: str
    flags: list[str]  # a line for each sentence of which something was left out or not known

    @property
    def spread(self) -> str:
        """The shares of variance, in words."""
        if self.plane.is_single_point:
            return "these sentences are the same to the model"
        first, second = self.plane.shares
        return f"{first:.0%} and {second:.0%} of the variance"


def too_few_sentences(name: str, count: int) -> list[str]:
    """A problem if the file or argument of this name has fewer than two sentences."""
    return [] if count >= 2 else [f"{name}: a map needs at least two sentences that differ, got {count}; give more"]


def make_map(generator: Generator, sentences: list[str], pool: Pool | None = None) -> SentenceMap:
    """The principal plane of the sentences' vectors."""
    made = sentence_vectors(generator, sentences, pool)
    if problems := too_few_sentences("sentences", len(made.sentences)):
        raise DataError(problems)
    model = generator.config.model
    made_of = pool_name(model, pool or default_pool(model))
    labels = [_label(sentence, generator.config.data) for sentence in made.sentences]
    return SentenceMap(made.sentences, labels, principal_plane(made.vectors), made_of, made.flags)


def _label(sentence: str, data: DataConfig) -> str:
    """The sentence with the names of its files alone: their folder, which is often the same, would fill the label."""
    cells = split_cells(sentence, len(data.sources))
    kinds = [source.kind for source in data.sources] or ["text"]
    return join_cells(
        tuple(cell if kind == "text" else Path(cell).name for cell, kind in zip(cells, kinds, strict=True))
    )


# The picture

_WIDTH, _SHORTEST, _TALLEST = 11.0, 5.0, 11.0
_MARGIN = 0.35  # between the outermost points and the frame
_POINTS = 7.5
_LONGEST_LABEL = 36
_RADIUS = 0.028  # of a dot
_GAP = 0.06  # between a dot and its label
_APART = (_RADIUS, 0.0)  # at least between a label and what is beside, above or below it
_MOST_LABELS = 1000  # the outermost points get one


def draw_map(sentence_map: SentenceMap, path: Path, title: str = "") -> None:
    """Write the map as PNG or SVG by suffix."""
    name = title or f"{len(sentence_map.sentences):,} sentences"
    same = f"; {sentence_map.spread}" if sentence_map.plane.is_single_point else ""
    draw_plane(sentence_map.plane, sentence_map.labels, path, title=f"{name}: {sentence_map.made_of}{same}")


def draw_plane(plane: PrincipalPlane, labels: list[str], path: Path, title: str = "") -> None:
    """Write the points as PNG or SVG by suffix: every point is drawn, a label only where it overlaps nothing."""
    if len(labels) != len(plane.points):
        raise ValueError(f"{len(labels)} labels do not fit {len(plane.points)} points")
    height, points = _scale_points(plane.points)
    figure = Figure(figsize=(_WIDTH, height), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0.0, _WIDTH), ylim=(0.0, height), xticks=[], yticks=[])
    size = (2 * _RADIUS * 72) ** 2
    axes.scatter(points[:, 0], points[:, 1], s=size, color=ACCENT, alpha=0.8, linewidths=0, zorder=3)
    _write_labels(axes, points, labels, (_WIDTH, height))
    first, second = (f"principal component, {100 * share:.0f} % of the variance" for share in plane.shares)
    axes.set_xlabel(f"first {first}", color=QUIET, labelpad=8, fontproperties=font(8.5))
    axes.set_ylabel(f"second {second}", color=QUIET, labelpad=8, fontproperties=font(8.5))
    axes.spines[:].set_color(LINE)
    if title:
        write_title(axes, title)
    save_figure(figure, path)


def _scale_points(points: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """The height of the frame, and the points in it; one scale for both axes, so that distances can be compared."""
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.maximum(high - low, 1e-12)
    height = float(np.clip((_WIDTH - 2 * _MARGIN) * span[1] / span[0] + 2 * _MARGIN, _SHORTEST, _TALLEST))
    frame = np.array([_WIDTH, height])
    scale = float(((frame - 2 * _MARGIN) / span).min())
    return height, (points - (low + high) / 2) * scale + frame / 2


def _write_labels(axes: Axes, points: NDArray[np.float64], labels: list[str], frame: tuple[float, float]) -> None:
    """Write labels right or left of their dots where they overlap nothing; the outermost points choose first."""
    taken = np.hstack([points - _RADIUS, points + _RADIUS])  # left, bottom, right, top
    distance = np.linalg.norm(points - points.mean(axis=0), axis=1)
    for number in np.argsort(-distance, kind="stable")[:_MOST_LABELS]:
        x, y = points[number]
        text = printable(labels[number], longest=_LONGEST_LABEL, keep=" ")
        size = text_size(text, _POINTS)
        for left in (x + _GAP, x - _GAP - size.width):
            box = np.array([left, y - size.height / 2, left + size.width, y + size.height / 2])
            inside = box[0] > _RADIUS and box[1] > _RADIUS and box[2] < frame[0] and box[3] < frame[1]
            apart = (taken[:, :2] >= box[2:] + _APART).any(axis=1) | (taken[:, 2:] <= box[:2] - _APART).any(axis=1)
            if inside and apart.all():
                # At the baseline: "bottom" would be that of a line as matplotlib lays it out, which is higher.
                axes.text(
                    left, box[1] + size.descent, text, color=INK, ha="left", va="baseline",
                    fontproperties=font(_POINTS, text), parse_math=False, zorder=4,
                )  # fmt: skip
                taken = np.vstack([taken, box])
                break
