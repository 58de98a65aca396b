"""Where a model looks while it writes given targets."""
# B pieces, T target steps, V vocabulary
# T target steps, S source steps

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import Config
from antiphon.data.batches import source_batch
from antiphon.data.source import Read, positions
from antiphon.data.tokenizers import PAD
from antiphon.inference.batching import alike
from antiphon.inference.generation import Copies, Heads
from antiphon.inference.inputs import Wording
from antiphon.models.model import SequenceModel
from antiphon.search.hypothesis import Check
from antiphon.sequence import Sequence

__all__ = ["Looker", "Scorer", "said"]

# How probable given targets are to a model, teacher-forced; window by window where it cannot look back on all.


@dataclass(frozen=True)
class Piece:
    """As much of a target as is read at once: all of it, or a window."""

    row: int
    source: Read
    before: int  # the token before the first
    tokens: list[int]


class Scorer:
    """Scores with a model, in its words."""

    def __init__(self, model: SequenceModel, wording: Wording, check: Check | None) -> None:
        self.model = model
        self.wording = wording
        self.check = check

    def log_probs(self, sources: list[Read], targets: list[list[int]], size: int) -> list[list[float]]:
        """log p of each token of each target; `size` pieces are computed together, which makes no difference."""
        both = zip(sources, targets, strict=True)
        pieces = [piece for row, (source, target) in enumerate(both) for piece in self._pieces(row, source, target)]
        found: dict[int, list[float]] = {}
        for places in alike([(0, positions(piece.source), len(piece.tokens)) for piece in pieces], size):
            found |= zip(places, self._forced([pieces[place] for place in places]), strict=True)
        results: list[list[float]] = [[] for _ in targets]
        for place, piece in enumerate(pieces):
            results[piece.row] += found[place]
        return results

    def _pieces(self, row: int, source: Read, target: list[int]) -> list[Piece]:
        """A Transformer sees each window of a stream on its own, here as in training."""
        window = self.wording.room or len(target)
        before = [self.wording.start, *target]
        return [
            Piece(row, source, before[first], target[first : first + window]) for first in range(0, len(target), window)
        ]

    @torch.inference_mode()
    def _forced(self, pieces: list[Piece]) -> list[list[float]]:
        if self.check is not None:
            self.check()
        outputs = Sequence.of_ids([piece.tokens for piece in pieces], PAD)
        inputs = Sequence.of_ids([[piece.before, *piece.tokens[:-1]] for piece in pieces], PAD)
        step = self.model(source_batch([piece.source for piece in pieces]), inputs.values)
        rows = said(step.logits, outputs.values).tolist()
        return [row[: len(piece.tokens)] for row, piece in zip(rows, pieces, strict=True)]


def said(logits: Tensor, tokens: Tensor) -> Tensor:
    """log p of tokens [B, T], of logits [B, T, V]; not log_softmax, because a second [B, T, V] may not fit."""
    return logits.gather(2, tokens.unsqueeze(2)).squeeze(2) - logits.logsumexp(dim=-1)


TOGETHER = 16  # sentences whose weights of all layers and heads are in memory at once


class Looker:
    """Looks once more, at targets that are known: the decoder's kind tells where its attention to a source is."""

    def __init__(self, config: Config, model: SequenceModel, wording: Wording, check: Check | None) -> None:
        self.model = model
        self.wording = wording
        self.check = check
        kind = config.model.decoder.kind
        self.in_steps = kind in ("bahdanau", "luong")  # each step hands it out
        self.in_heads = kind == "transformer" and config.data.source is not None  # it has to be asked for
        self.copies_words = isinstance(config.model, EncoderDecoderConfig) and config.model.copying

    def weights(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        """The one matrix [T, S] to look at, without padding: a recurrent decoder's weights, the mean of many heads."""
        if self.in_steps:
            return self._of_steps(sources, targets)
        if self.in_heads:
            groups = range(0, len(sources), TOGETHER)
            return [one for g in groups for one in self._of_heads(sources[g : g + TOGETHER], targets[g : g + TOGETHER])]
        return [None] * len(sources)

    @torch.inference_mode()
    def look(self, source: Read, target: list[int]) -> Heads:
        """Every layer and head; a target alone, so that there is no padding."""
        if self.check is not None:
            self.check()
        looks = self.model.attention_weights(source_batch([source]), torch.tensor([[self.wording.start, *target[:-1]]]))
        parts = (looks.cross, looks.own, looks.source)
        cross, own, itself = (None if part is None else part[0].numpy() for part in parts)
        return Heads(cross=cross, own=own, source=itself)

    @torch.inference_mode()
    def _of_heads(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        """The mean over layers and heads."""
        if self.check is not None:
            self.check()
        cross = self.model.attention_weights(source_batch(sources), self._inputs(targets)).cross  # [R, L, N, T, S]
        assert cross is not None
        return self._cropped(cross.mean((1, 2)), sources, targets)

    @torch.inference_mode()
    def _of_steps(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        if self.check is not None:
            self.check()
        found = self.model(source_batch(sources), self._inputs(targets)).weights
        assert found is not None
        return self._cropped(found, sources, targets)

    def _cropped(self, weights: Tensor, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        """[R, T, S] without padding."""
        return [
            weights[row, : len(target), : self.wording.remembered(source)].numpy()
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]

    @torch.inference_mode()
    def copies(self, sources: list[Read], targets: list[list[int]]) -> list[Copies | None]:
        """What was copied: p(copied from j, y) / p(y) of every token y; None where nothing can be."""
        if not self.copies_words:
            return [None] * len(sources)
        if self.check is not None:
            self.check()
        outputs = Sequence.of_ids(targets, PAD).values
        step = self.model(source_batch(sources), self._inputs(targets))
        if step.copied is None:  # an ensemble says no more than p
            return [None] * len(sources)
        found = step.copied.of(outputs)  # [R, T, S]
        shares = (found.sum(dim=-1) / said(step.logits, outputs).exp()).clamp(max=1.0)
        rows = zip(targets, shares.tolist(), found.argmax(dim=-1).tolist(), strict=True)
        return [Copies(share[: len(target)], places[: len(target)]) for target, share, places in rows]

    def _inputs(self, targets: list[list[int]]) -> Tensor:
        """What a decoder is given to say these [R, T]."""
        return Sequence.of_ids([[self.wording.start, *target[:-1]] for target in targets], PAD).values
