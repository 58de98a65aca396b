"""How probable given targets are to a model, teacher-forced; window by window where it cannot look back on all."""
# B pieces, T target steps, V vocabulary

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.decoding.ask import Check
from antiphon.decoding.grouping import alike
from antiphon.decoding.wording import Wording
from antiphon.model import SequenceModel
from antiphon.sequence import Sequence
from antiphon.sources.batches import source_batch
from antiphon.sources.source import Read, positions
from antiphon.sources.vocabulary import PAD

__all__ = ["Scorer", "said"]


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
